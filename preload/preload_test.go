package preload

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		"python":                    {Interpreter: Python},
		"python:numpy":              {Python, []string{"numpy"}},
		"python:a.b_1,_x,numpy.fft": {Python, []string{"a.b_1", "_x", "numpy.fft"}},
	} {
		got, bad := Parse(text)
		if bad != nil || got.Interpreter != want.Interpreter || !slices.Equal(got.Modules, want.Modules) || got.String() != text {
			t.Errorf("%q: %+v %v, want %+v", text, got, bad, want)
		}
	}
	for _, text := range []string{
		"node", "Python", "python3", ":numpy", "python:", "python:a,", "python:,a", "python:a b", "python:a;b", "python:a.", "python:.a", "python:a..b",
		"python:1a", "python:a.1b", "python:a-b", "python:a\nb", "python:a\x00", "python:é", "python:../x", "python:a/b", "python:-c", "python:__import__('os')",
		"python:" + strings.Repeat("a", MaxModuleName+1), "python:" + strings.Repeat("a,", MaxModules) + "a",
	} {
		if got, bad := Parse(text); bad == nil || bad.Hint == "" {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		args          string
		kind          Kind
		what, options string
		argv          string
	}{
		{"python3 x.py a -c", File, "x.py", "", "x.py a -c"},
		{"python3 -c pass a", Command, "pass", "", "-c a"},
		{"python3 -cpass -m", Command, "pass", "", "-c -m"},
		{"python3 -uBm mod -c", Module, "mod", "uB", "-m -c"},
		{"python3 -u -- -x", File, "-x", "u", "-x"},
		{"python3 - -u", Stdin, "", "", "- -u"},
	} {
		got, bad := Read(strings.Fields(c.args))
		if bad != nil || got.Kind != c.kind || got.What != c.what || got.Options != c.options || strings.Join(got.Argv, " ") != c.argv {
			t.Errorf("%q: %+v %v", c.args, got, bad)
		}
	}
	if got, bad := Read([]string{"python3"}); bad != nil || got.Kind != Stdin || !slices.Equal(got.Argv, []string{""}) {
		t.Errorf("alone: %+v %v", got, bad)
	}
	for _, args := range []string{"", "python", "/usr/bin/python3 x", "python3.11", "python3 -I", "python3 -uI x", "python3 -X dev", "python3 --version", "python3 -c", "python3 -um", "sh"} {
		if got, bad := Read(strings.Fields(args)); bad == nil || bad.Hint == "" {
			t.Errorf("%q was read as %+v", args, got)
		}
	}
}

// No value of a variable that the interpreter does not read gets into its
// memory, which all programs have a copy of.
func TestEnvironment(t *testing.T) {
	got := Environment([]string{"PATH=/bin", "TOKEN=secret", "PYTHONPATH=/x", "LC_ALL=C", "OMP_NUM_THREADS=1", "HOME=/h", "TZ=UTC", "MYPYTHON=1"})
	if want := []string{"PATH=/bin", "PYTHONPATH=/x", "LC_ALL=C", "OMP_NUM_THREADS=1", "HOME=/h", "TZ=UTC"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEncode(t *testing.T) {
	c := Call{Kind: Command, What: "a\n", Options: "u", Argv: []string{"-c", ""}, Args: []string{"python3"}}
	want := []byte("command\x00a\n\x00u\x002\x00-c\x00\x001\x00python3\x001\x00A=b\x00")
	if got := c.Encode([]string{"A=b"}); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
