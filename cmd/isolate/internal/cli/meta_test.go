package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

func readMeta(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

// fullResult has a value in every field.
func fullResult() isolate.Result {
	return isolate.Result{
		Reason: isolate.ReasonWall, ExitCode: 137, Signal: 9, NotStarted: "not-found", Detail: "60s are over",
		Stdout: isolate.Stream{Total: 10, Dropped: 2}, Stderr: isolate.Stream{Total: 3},
		Usage: isolate.Usage{Wall: 60e9, CPU: 1e9, Memory: 1 << 20, OOMKills: 1, PIDsDenied: 2},
		Blocked: denial.Summary{
			Total: 3, Folded: 1, ByCall: map[string]int64{"connect": 3},
			Events: []denial.Event{{
				Elapsed: 5, PID: 2, Exe: "/usr/bin/python3", Call: "connect", Family: "AF_INET", Type: "SOCK_STREAM",
				Address: "192.0.2.1", Port: 443, Errno: "ENETUNREACH",
			}},
		},
		Plan: "sha256:1", Weakenings: []policy.Weakening{policy.WeakLimits}, Identity: "single-id", Limits: "rlimits",
		In: &isolate.Manifest{Files: []workspace.Entry{{
			Path: "a", Size: 1, Mode: "0644", SHA256: "00", Type: "text/plain", Link: "b", Why: "it is a link",
		}}, Skipped: []workspace.Entry{{Path: "s", Why: "it is a socket"}}, Dirs: 1, Bytes: 1},
		Out: &isolate.Manifest{Files: []workspace.Entry{}},
	}
}

func TestMetaOfAResult(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "m.json", "of an earlier run")
	if got := call(t, ends(fullResult()), dir, "exec", "--meta", "m.json", "true"); got.code != 124 {
		t.Fatalf("got %+v", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "m.json"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "meta.golden.json", string(text))
	if files := list(t, dir); len(files) != 1 {
		t.Errorf("files %q", files)
	}
	st, err := os.Stat(filepath.Join(dir, "m.json"))
	if err != nil || st.Mode().Perm() != metaMode {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// TestMetaOfAFile: the run command has the program's result in the document,
// and what a model is told of a failure.
// A server's result says the same when it has been read and is written again.
func TestMetaOfAServer(t *testing.T) {
	sent, err := json.Marshal(fullResult())
	if err != nil {
		t.Fatal(err)
	}
	var read isolate.Result
	if err := json.Unmarshal(sent, &read); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(read); err != nil || string(again) != string(sent) {
		t.Errorf("%s, %v\nwant %s", again, err, sent)
	}
}

func TestMetaOfAFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "main.py", "")
	res := isolate.Result{Reason: isolate.ReasonExit, ExitCode: 3, Answer: &isolate.Answer{From: isolate.AnswerNone}}
	call(t, ends(res), dir, "run", "main.py", "--meta", "m.json")
	m := readMeta(t, filepath.Join(dir, "m.json"))
	prompt, _ := m["repair_prompt"].(string)
	if m["result"] != "" || m["result_from"] != "none" || !strings.HasPrefix(prompt, "The program failed: exit code 3.\n") {
		t.Errorf("document %v", m)
	}
}

func TestMetaOfARefusal(t *testing.T) {
	dir := t.TempDir()
	got := call(t, &fake{}, dir, "exec", "--meta", "m.json", "--memry", "1G", "--time", "5", "true")
	if got.code != exitRefused {
		t.Fatalf("got %+v", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "m.json"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "meta-refused.golden.json", string(text))
}

// Weakenings are a list also when there are none.
func TestMetaListsNoWeakening(t *testing.T) {
	dir := t.TempDir()
	call(t, &fake{}, dir, "exec", "--meta", "m.json", "true")
	m := readMeta(t, filepath.Join(dir, "m.json"))
	if l, ok := m["weakenings"].([]any); !ok || len(l) > 0 {
		t.Errorf("weakenings %v", m["weakenings"])
	}
}

// TestMetaIsNeverStale: a document of an earlier run is gone while a program
// runs, so that it cannot pass for that of a run that was killed.
func TestMetaIsNeverStale(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "m.json", "{}")
	f := &fake{}
	f.run = func(_ context.Context, _ isolate.Cmd) (isolate.Result, error) {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("while the program runs: %v", err)
		}
		return isolate.Result{}, errors.New("cannot go on")
	}
	call(t, f, dir, "exec", "--meta", "m.json", "true")
	if m := readMeta(t, path); m["reason"] != "sandbox-error" {
		t.Errorf("document %v", m)
	}
}

func TestMetaToADescriptor(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(w.Fd())) // without close-on-exec, as one that was passed in
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, &fake{}, "/", "exec", "--meta", fmt.Sprint(fd), "true"); got != (called{}) {
		t.Fatalf("got %+v", got)
	}
	var m map[string]any
	if err := json.NewDecoder(r).Decode(&m); err != nil || m["schema"] != float64(metaSchema) || m["reason"] != "exit" {
		t.Errorf("document %v, %v", m, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("descriptor %d is still open: %v", fd, err)
	}
}

// A descriptor that is read-only, or that this process opened for itself, is
// not taken.
func TestMetaToAWrongDescriptor(t *testing.T) {
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	own := int(null.Fd())
	passed, err := unix.Dup(own)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(passed)
	for fd, why := range map[int]string{own: descriptorNotOpen, passed: descriptorReadOnly} {
		got := call(t, &fake{}, "/", "exec", "--meta", fmt.Sprint(fd), "true")
		if got.code != exitRefused || !strings.Contains(got.stderr, why) {
			t.Errorf("got %+v, want %q", got, why)
		}
	}
}

// TestMetaUnwritten: a script must not take a run without a document for a
// success.
func TestMetaUnwritten(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	f.run = func(context.Context, isolate.Cmd) (isolate.Result, error) {
		return isolate.Result{Reason: isolate.ReasonExit}, os.Remove(sub)
	}
	got := call(t, f, dir, "exec", "--meta", "sub/m.json", "true")
	if got.code != exitRefused || !strings.HasPrefix(got.stderr, "error: cannot write the result: ") {
		t.Errorf("got %+v", got)
	}
}

// TestMetaIsDocumented: docs/meta.md has a table row for every field there is.
func TestMetaIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/meta.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder // the first cells of all tables
	for line := range strings.Lines(string(text)) {
		if cell, ok := strings.CutPrefix(line, "|"); ok {
			cell, _, _ = strings.Cut(cell, "|")
			rows.WriteString(cell)
		}
	}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "-" && name != "" && !strings.Contains(rows.String(), "`"+name+"`") {
				t.Errorf("no row for %q of %v", name, typ)
			}
			visit(f.Type)
		}
	}
	visit(reflect.TypeFor[metaResult]())
	visit(reflect.TypeFor[metaRefusal]())
	if !seen[reflect.TypeFor[plan.Problem]()] || !seen[reflect.TypeFor[denial.Event]()] {
		t.Error("the fields of problems or events were not looked at")
	}
}
