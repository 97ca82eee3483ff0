package policy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const docsFile = "../docs/policy.md"

func readDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocsExamplesDecode(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1)
	if len(blocks) == 0 {
		t.Fatalf("%s has no toml block", docsFile)
	}
	for _, block := range blocks {
		p, err := Decode(docsFile, []byte(block[1]))
		if err != nil {
			t.Errorf("%v\nin\n%s", err, block[1])
			continue
		}
		if ps := p.Validate(Surroundings{Home: "/home/a", RuntimeDir: "/run/user/1000"}); len(ps) > 0 {
			t.Errorf("%v\nin\n%s", ps, block[1])
		}
	}
}

// The table of settings has a row for each key, no other, and the default that
// is in force.
func TestDocsTableOfSettings(t *testing.T) {
	defaults := map[string]string{
		"profile": Profile(0).String(), "hostname": DefaultHostname, "memory": DefaultMemory.String(), "disk": DefaultDisk.String(),
		"output": DefaultOutput.String(), "end-on-output": EndOnOutput(0).String(), "time": "60s",
		"pids": "128", "inodes": "65536", "files": "1024",
	}
	if DefaultPIDs != 128 || DefaultInodes != 65536 || DefaultFiles != 1024 || DefaultWall != time.Minute {
		t.Errorf("the defaults have changed: change this test and %s", docsFile)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .*? \\| (.*?) \\| ").FindAllStringSubmatch(readDocs(t), -1) {
		documented = append(documented, row[1])
		if want, ok := defaults[row[1]]; ok && strings.Trim(row[2], "`\"") != want {
			t.Errorf("%s gives %s the default %s, it is %s", docsFile, row[1], row[2], want)
		}
	}
	if !slices.Equal(documented, keyNames()) {
		t.Errorf("%s has the settings\n%q, the decoder\n%q", docsFile, documented, keyNames())
	}
	for _, w := range Weakenings {
		if !strings.Contains(readDocs(t), "`"+string(w)+"`") {
			t.Errorf("%s does not tell of %s", docsFile, w)
		}
	}
}

// A hint that says "write …" is itself right.
func TestExamplesInHintsDecode(t *testing.T) {
	for _, k := range keys() {
		file := strings.ReplaceAll(k.example, " and below it ", "\n")
		if _, err := Decode(k.name, []byte(file)); err != nil {
			t.Errorf("the example of %s: %v", k.name, err)
		}
	}
}
