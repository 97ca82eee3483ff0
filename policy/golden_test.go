package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The words a person reads are reviewed as code: they stand in testdata and
// change only by `go test ./policy -update`.
var update = flag.Bool("update", false, "write the golden files anew")

// TestErrorTexts has every text the Parse functions and Validate refuse with.
func TestErrorTexts(t *testing.T) {
	var b strings.Builder
	parse := func(noun string, parse func(string) error, texts ...string) {
		for _, text := range texts {
			fmt.Fprintf(&b, "%s %q\n\t%v\n", noun, text, parse(text))
		}
	}
	parse("size", func(s string) error { _, err := ParseSize(s); return err },
		"", "512", "512 ", "512 M", "512m", "512MB", "10P", "lots", "-1G", "0", "0G", "1.5.2G", "8388608T", strings.Repeat("9", 200)+"M")
	parse("duration", func(s string) error { _, err := ParseDuration(s); return err },
		"", "60", "60 s", "5min", "60sec", "1d", "soon", "-1s", "0", "0s", "1..5s", "9999999h")
	parse("cpus", func(s string) error { _, err := ParseCPUs(s); return err }, "", "0", "-1", "50%", "500m", "1.2.3", "all")
	parse("count", func(s string) error { _, err := ParseCount(s); return err }, "", "0", "-1", "1.5", "1k", "many", "9223372036854775808")
	parse("bind", func(s string) error { _, err := ParseBind(s); return err },
		"", ":/a", "/a:b", "/a:/b/../c", "/a:/b:ro", "/a:/b:rw", "/a:/b:/c", "~/a", "/a\x00")
	parse("env", func(s string) error { _, _, err := ParseEnv(s); return err }, "A", "=x", "1A=x", "A-B=x", "A=\x00")
	parse("profile", func(s string) error { return new(Profile).UnmarshalText([]byte(s)) }, "", "Strict", "strikt", "unconfined")
	parse("end-on-output", func(s string) error { return new(EndOnOutput).UnmarshalText([]byte(s)) }, "true", "endrun")
	parse("weakening", func(s string) error { _, err := ParseWeakening(s); return err }, "", "weak", "unsafe_bind", "network")
	for _, c := range invalid {
		fmt.Fprintf(&b, "policy: %s\n", c.name)
		for _, p := range c.policy.Validate(Surroundings{}) {
			fmt.Fprintf(&b, "\t%v\n", p)
		}
	}
	golden(t, "testdata/texts.golden", b.String())
}

// TestFileErrors has the whole error of files with many things wrong: each
// name.toml in testdata with its name.err.
func TestFileErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Decode(filepath.Base(file), data); err == nil {
			t.Errorf("%s: decoded, want an error", file)
			continue
		}
		golden(t, strings.TrimSuffix(file, ".toml")+".err", err.Error()+"\n")
	}
}

// golden compares got with the file, or writes it under -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := "", ""
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s, line %d:\ngot  %s\nwant %s", file, i+1, g, w)
		}
	}
}
