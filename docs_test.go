package isolate_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/internal/testenv"
)

// block is a fenced block of a document.
type block struct {
	info string // what stands after the fence
	text string
	line int
}

func blocks(t *testing.T, file string) []block {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	var open *block
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{info: strings.TrimPrefix(line, "```"), line: i + 1}
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block is not closed", file, open.line)
	}
	return out
}

// documents are README and all of docs.
func documents(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "HACKING.md"}
	err := filepath.WalkDir("docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			list = append(list, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every console block shows what really happens: each command after "$ " is
// run from the top of the checkout, and prints what stands below it. Blocks
// marked no-run are run by CI itself.
func TestConsoleBlocks(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Cgroup, testenv.Python3)
	if _, err := os.Stat("bin/isolate"); err != nil {
		t.Skip("bin/isolate is not built: make build")
	}
	for _, file := range documents(t) {
		for _, b := range blocks(t, file) {
			if b.info != "console" {
				continue
			}
			var command, want string
			check := func() {
				if command == "" {
					return
				}
				out, err := exec.Command("bash", "-c", command+" 2>/dev/null").Output()
				if err != nil || string(out) != want {
					t.Errorf("%s:%d: %s\nprints (%v)\n%swant\n%s", file, b.line, command, err, out, want)
				}
			}
			for _, line := range strings.SplitAfter(b.text, "\n") {
				if c, ok := strings.CutPrefix(line, "$ "); ok {
					check()
					command, want = strings.TrimSpace(c), ""
				} else {
					want += line
				}
			}
			check()
		}
	}
}

// Every Go block that is a whole program compiles. Under test/as-user the
// user's build cache is empty; test/all runs this one again as root.
func TestRootGoBlocks(t *testing.T) {
	if os.Getenv("ISOLATE_AS_USER") != "" {
		t.Skip("runs in the part of test/all that is run as root")
	}
	testenv.Require(t, testenv.Tool("go"))
	for _, file := range documents(t) {
		for _, b := range blocks(t, file) {
			if b.info != "go" || !strings.HasPrefix(b.text, "package main") {
				continue
			}
			dir := t.TempDir()
			src := filepath.Join(dir, "main.go")
			if err := os.WriteFile(src, []byte(b.text), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "vet", "-tags", "seccomp,runc_nocriu", src)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", file, b.line, err, out)
			}
		}
	}
}

// Links between documents lead somewhere.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(b), "](")[1:] {
			to, _, _ := strings.Cut(part, ")")
			to, _, _ = strings.Cut(to, "#")
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), to)); err != nil {
				t.Errorf("%s links to %s, which is not there", file, to)
			}
		}
	}
}
