package workspace

import (
	"os"
	"strings"
	"testing"
)

// Case A 45: what host tools would run is copied, flagged, and hooks lose
// their execute bits (codex#37081; the git cases are those of CVE-2014-9390
// and of bare repositories in a work tree).
func TestCopyOutFlagsWhatHostToolsRun(t *testing.T) {
	ws := tempDir(t)
	flagged := map[string]string{
		".git/hooks/pre-commit":           "git hook",
		".git/config":                     "git configuration",
		".git/config.worktree":            "git configuration",
		"vendor/lib/.git/hooks/post-x":    "git hook",
		".git/modules/sub/hooks/update":   "git hook",
		".git/modules/sub/config":         "git configuration",
		".GIT/hooks/upper":                "git hook",
		"hfs/.g\u200cit/hooks/x":          "git hook",
		"ntfs/git~1/hooks/x":              "git hook",
		"dot/.git./hooks/x":               "git hook",
		"bare/hooks/post-update":          "git hook",
		"bare/config":                     "git configuration",
		"submodule/.git":                  "points elsewhere",
		".gitmodules":                     "git configuration",
		".envrc":                          "run on entering",
		"deep/er/.envrc":                  "run on entering",
		".vscode/tasks.json":              "editor",
		"x.code-workspace":                "editor",
		".idea/runConfigurations/r.xml":   "editor",
		".devcontainer/devcontainer.json": "editor",
		".github/workflows/ci.yml":        "continuous integration",
		".github/actions/a/action.yml":    "continuous integration",
		".gitlab-ci.yml":                  "continuous integration",
		"Jenkinsfile":                     "continuous integration",
		".bashrc":                         "shell",
		".ssh/authorized_keys":            "login",
		".config/autostart/x.desktop":     "desktop",
		".husky/pre-push":                 "git hook manager",
		".cargo/config.toml":              "build tool",
		".npmrc":                          "package manager",
		".gdbinit":                        "debugger",
		"CLAUDE.md":                       "agent",
		"sub/AGENTS.md":                   "agent",
		".claude/settings.json":           "agent",
		".cursor/rules/r.mdc":             "agent",
		".mcp.json":                       "agent",
		".github/copilot-instructions.md": "agent",
	}
	plain := []string{
		"hooks/useState.js", "src/config", "config", ".gitignore", ".github/README.md", "git/hooks/x",
		"main.py", "bare/HEAD", "bare/objects/x", "bare/refs/x", ".config/app.toml", "agents/x.md", "notgit/HEAD",
		".git/HEAD", ".git/hooks/README/deeper",
	}
	for rel := range flagged {
		put(t, ws+"/"+rel, "x", 0o755)
	}
	for _, rel := range plain {
		put(t, ws+"/"+rel, "x", 0o755)
	}
	m, _ := out(t, ws, Limits{})
	if len(m.Files) != len(flagged)+len(plain) {
		t.Errorf("%d files copied of %d, skipped %v", len(m.Files), len(flagged)+len(plain), m.Skipped)
	}
	for rel, why := range flagged {
		e, _ := find(m.Files, rel)
		if !strings.Contains(e.Why, "tools of the host act on it: ") || !strings.Contains(e.Why, why) {
			t.Errorf("%q: why %q, want it flagged with %q", rel, e.Why, why)
		}
		hook := why == "git hook"
		if hook != (e.Mode == "0644") || hook != strings.Contains(e.Why, "without its execute bits") {
			t.Errorf("%q: mode %s, why %q", rel, e.Mode, e.Why)
		}
	}
	for _, rel := range plain {
		if e, _ := find(m.Files, rel); strings.Contains(e.Why, "tools of the host") || e.Mode != "0755" {
			t.Errorf("%q: mode %s, why %q", rel, e.Mode, e.Why)
		}
	}
}

// A workspace that is itself a bare repository.
func TestCopyOutBareTop(t *testing.T) {
	ws := tempDir(t)
	for _, rel := range []string{"HEAD", "objects/x", "refs/x", "hooks/update"} {
		put(t, ws+"/"+rel, "x", 0o755)
	}
	m, _ := out(t, ws, Limits{})
	if e, _ := find(m.Files, "hooks/update"); e.Mode != "0644" || !strings.Contains(e.Why, "git hook") {
		t.Errorf("%+v", e)
	}
}

func TestCopyOutCaseTwins(t *testing.T) {
	ws := tempDir(t)
	for _, rel := range []string{"README", "readme", "Readme", "alone", "Dir/a", "dir/a", "\u212Aelvin", "kelvin"} {
		put(t, ws+"/"+rel, rel, 0o644)
	}
	m, host := out(t, ws, Limits{})
	for _, rel := range []string{"README", "readme", "Readme", "Dir/a", "dir/a", "\u212Aelvin", "kelvin"} {
		if e, ok := find(m.Files, rel); !ok || !strings.Contains(e.Why, "where case does not count") {
			t.Errorf("%q: copied %v, why %q", rel, ok, e.Why)
		}
	}
	if e, _ := find(m.Files, "alone"); e.Why != "" {
		t.Errorf("alone: %q", e.Why)
	}
	if names, _ := os.ReadDir(host); len(names) != 8 {
		t.Errorf("%v", names)
	}
}

func TestFold(t *testing.T) {
	for name, want := range map[string]string{
		".git": ".git", ".GIT": ".git", ".gIt. ": ".git", "GIT~1": ".git", ".g\u200d\ufeffit": ".git",
		"Straße": "straße", "\u017Fet": "set", "\u212A": "k", "": "", "日本": "日本", "ΑΣ": "ας",
	} {
		if want == "ας" {
			// Final and other sigma are one letter.
			if fold(name) != fold("ας") || fold(name) != fold("ασ") {
				t.Errorf("fold(%q) = %q", name, fold(name))
			}
			continue
		}
		if got := fold(name); got != want {
			t.Errorf("fold(%q) = %q, want %q", name, got, want)
		}
	}
}

// The keys of the tables are looked up in folded form.
func TestTablesAreFolded(t *testing.T) {
	for _, table := range []map[string]string{byName(), byDirectory(), gitFiles, byEnding} {
		for name, why := range table {
			if fold(name) != name || why == "" {
				t.Errorf("%q: %q never matches", name, why)
			}
		}
	}
	for pair := range byPair {
		a, b, _ := strings.Cut(pair, "/")
		if fold(a) != a || fold(b) != b || b == "" {
			t.Errorf("%q never matches", pair)
		}
	}
}

func TestMediaType(t *testing.T) {
	for _, c := range []struct{ name, head, want string }{
		{"a.png", "\x89PNG\r\n\x1a\n", "image/png"},
		{"a.txt", "\x89PNG\r\n\x1a\n", "image/png"}, // the bytes count
		{"a.png", "#!/bin/sh\n", "text/plain"},
		{"a.jpg", "\xff\xd8\xff\xe0", "image/jpeg"},
		{"a.webp", "RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"a.mp4", "\x00\x00\x00\x18ftypmp42", "video/mp4"},
		{"a.pdf", "%PDF-1.7", "application/pdf"},
		{"a.csv", "a,b\n", "text/csv"},
		{"A.JSON", "{}", "application/json"},
		{"a.json", "\x00\x01", "application/octet-stream"},
		{"a.xlsx", "PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"a.zip", "PK\x03\x04", "application/zip"},
		{"a.svg", "<svg/>", "image/svg+xml"},
		{"a", "", "text/plain"},
		{"a", "ünï\xc3", "text/plain"}, // cut in a character
		{"a", "\xc3(", "application/octet-stream"},
		{"a", "a\x00b", "application/octet-stream"},
		{"a", "R", "text/plain"},
	} {
		if got := mediaType(c.name, []byte(c.head)); got != c.want {
			t.Errorf("mediaType(%q, %q) = %q, want %q", c.name, c.head, got, c.want)
		}
	}
}

func FuzzMediaType(f *testing.F) {
	f.Add("a.csv", []byte("a,b"))
	f.Add("a", []byte("RIFF"))
	f.Add("a", []byte{0xf0, 0x9f})
	f.Fuzz(func(t *testing.T, name string, head []byte) {
		if got := mediaType(name, head); !strings.Contains(got, "/") {
			t.Errorf("mediaType(%q, %q) = %q", name, head, got)
		}
	})
}
