package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/cmd/isolate/internal/cli"
)

// Every command has a page, and its page every flag.
func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	var stderr bytes.Buffer
	if code := run([]string{dir}, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("code %d, %q", code, stderr.String())
	}
	for _, c := range cli.Commands().Commands() {
		text, err := os.ReadFile(filepath.Join(dir, "isolate-"+c.Name()+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for line := range strings.Lines(c.Flags().FlagUsages()) {
			flag, _, _ := strings.Cut(strings.TrimLeft(strings.TrimSpace(line), "-"), " ")
			if flag, _, _ = strings.Cut(flag, "["); !strings.Contains(string(text), `\fB--`+flag+`\fP`) {
				t.Errorf("isolate-%s.1 does not have --%s", c.Name(), flag)
			}
		}
	}
}

func TestWithoutDirectory(t *testing.T) {
	var stderr bytes.Buffer
	if code := run(nil, &stderr); code != 2 || !strings.HasPrefix(stderr.String(), "error: ") {
		t.Errorf("code %d, %q", code, stderr.String())
	}
}
