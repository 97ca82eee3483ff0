package procgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindInterpreter: a script is found only with what its first line needs.
func TestFindInterpreter(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	put("good", "")
	env := []string{"PATH=relative::" + dir}
	for line, missing := range map[string]string{
		"":                            "",
		"#!/bin/sh":                   "",
		"#! /bin/sh -e":               "",
		"#!/no/such":                  `"/no/such", which does not exist`,
		"#!/bin/sh\r":                 `"/bin/sh\r", which does not exist`,
		"#!/usr/bin/env good":         "",
		"#!/usr/bin/env\tgood ":       "",
		"#!/usr/bin/env missing":      `"missing", which is not in PATH`,
		"#!/usr/bin/env good -u":      `"good -u", which is not in PATH`,
		"#!/usr/bin/env -S good -u":   "",
		"#!/usr/bin/env -S A=1 gone":  `"gone", which is not in PATH`,
		"#!/usr/bin/env -S -i gone":   "", // env's own options are not known here
		"#!/usr/bin/env -S 'go ne'":   "",
		"#!/usr/bin/env -i gone":      "",
		"#!/usr/bin/env /no/such/one": "",
		"#!/usr/bin/env":              "",
	} {
		file := put("script", line+"\nrest\n")
		for _, name := range []string{file, "./script", "script"} {
			got, err := Find(name, dir, env)
			switch {
			case missing == "" && (err != nil || got != file):
				t.Errorf("%q as %s: %q, %v", line, name, got, err)
			case missing != "" && (err == nil || !strings.Contains(err.Error(), missing)):
				t.Errorf("%q as %s: %v, want %s", line, name, err, missing)
			}
		}
	}
}
