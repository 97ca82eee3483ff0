package dirfd

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{
		"a", "...", ".hidden", "with space", "ünïcödé", "日本", "a\\b", "-rf", "a:b", "%2e%2e",
		"workspace-evil", strings.Repeat("n", 255), "שלום",
	} {
		if err := CheckName(good); err != nil {
			t.Errorf("CheckName(%q) = %v, want nil", good, err)
		}
	}
	for bad, why := range map[string]string{
		"":                              "empty",
		".":                             "another directory",
		"..":                            "another directory",
		"a/b":                           "slash",
		"/":                             "slash",
		"a\x00b":                        "control",
		"a\nb":                          "control",
		"\x1b[31mred":                   "control",
		"del\x7f":                       "control",
		"c1\u009b":                      "control",
		"photo\u202egpj.sh":             "text-direction",
		"a\u2066b":                      "text-direction",
		"a\u2028b":                      "line separator",
		"\xff\xfe":                      "UTF-8",
		"cut\xe2\x82":                   "UTF-8",
		"\xed\xa0\x80":                  "UTF-8", // a lone surrogate
		"\xc0\xae\xc0\xae":              "UTF-8", // ".." in overlong form
		strings.Repeat("n", 256):        "255",
		strings.Repeat("ü", 128):        "255",
		strings.Repeat("a", 1e6):        "255",
		"a/" + strings.Repeat("b", 250): "slash",
	} {
		checkNameError(t, CheckName(bad), bad, why)
	}
}

func TestCheckRel(t *testing.T) {
	for _, good := range []string{"a", "a/b/c", ".git/config", "workspace-evil/x", "a/...", strings.Repeat("d/", 2000) + "f"} {
		if err := CheckRel(good); err != nil {
			t.Errorf("CheckRel(%q) = %v, want nil", good, err)
		}
	}
	for bad, why := range map[string]string{
		"":                                "empty",
		"/":                               "absolute",
		"/workspace/x":                    "absolute",
		"//x":                             "absolute",
		"link/":                           "slash",
		"link//":                          "slash",
		"a//b":                            "empty component",
		".":                               `"."`,
		"./a":                             `"."`,
		"a/.":                             `"."`,
		"..":                              `".."`,
		"../x":                            `".."`,
		"../workspace-evil/x":             `".."`,
		"a/../../x":                       `".."`,
		"a/..":                            `".."`,
		"a/b\nc":                          "control",
		"a/\x00":                          "control",
		"a/\xff":                          "UTF-8",
		"a/" + strings.Repeat("n", 256):   "255",
		strings.Repeat("d/", 2048) + "ff": "4095",
	} {
		checkNameError(t, CheckRel(bad), bad, why)
	}
}

func checkNameError(t *testing.T, err error, bad, why string) {
	t.Helper()
	var ne *NameError
	if !errors.As(err, &ne) || ne.Name != bad || !strings.Contains(ne.Why, why) {
		t.Errorf("%.40q: got %v, want a *NameError about %q", bad, err, why)
		return
	}
	for _, r := range err.Error() {
		if r < ' ' || misleading(r) {
			t.Errorf("%.40q: the message holds %U", bad, r)
		}
	}
	if len(err.Error()) > 2000 {
		t.Errorf("%.40q: the message has %d bytes", bad, len(err.Error()))
	}
}

// FuzzCheckRel: whatever passes is one clean path below a directory.
func FuzzCheckRel(f *testing.F) {
	for _, s := range []string{"a", "a/b", "../x", "/x", "x/", "a//b", "a/./b", "a/../b", "\x00", "\xff", "a\u202eb", "workspace-evil"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rel string) {
		if CheckRel(rel) != nil {
			return
		}
		if !filepath.IsLocal(rel) || path.Clean(rel) != rel || rel == "." || !utf8.ValidString(rel) || len(rel) > MaxPath {
			t.Fatalf("CheckRel passed %q", rel)
		}
		if joined := path.Join("/base", rel); joined != "/base/"+rel {
			t.Fatalf("%q is %q below /base", rel, joined)
		}
		for name := range strings.SplitSeq(rel, "/") {
			if err := CheckName(name); err != nil {
				t.Fatalf("CheckRel passed %q with %v", rel, err)
			}
		}
	})
}
