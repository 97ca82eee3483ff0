package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/audit"
)

// newLog makes a directory of logs, with a key of its own.
func newLog(t *testing.T) (dir string, l *audit.Log) {
	t.Helper()
	key, err := audit.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "log")
	if l, err = audit.Open(dir, audit.Options{Key: key, Payload: audit.PayloadText}); err != nil {
		t.Fatal(err)
	}
	return dir, l
}

// recorded makes a directory of logs in which a hostile program was at work,
// and gives the id of its run.
func recorded(t *testing.T) (dir, run string) {
	t.Helper()
	dir, l := newLog(t)
	defer l.Close()
	r, err := l.Run(audit.RunStart{Plan: "sha256:00"}, audit.ProgramStart{Program: hostile, File: hostile})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Append(
		audit.SocketBlocked{Call: "connect", Address: hostile, Exe: hostile, Errno: "ENETUNREACH"},
		audit.SyscallDenied{Call: "mount", Exe: hostile, Errno: "ENOSYS"},
		audit.CallAccepted{Call: 1, Tool: hostile, Args: r.Payload([]byte(`{"x":"</td><script>alert(1)</script>"}`))},
		audit.CallFinished{Call: 1, Tool: hostile, Decision: "failed", Code: hostile, Wall: 1500},
		audit.CallRefused{Tool: hostile, Code: "unknown_tool"},
		audit.LimitHit{Limit: hostile, Count: 3},
		audit.ProgramEnd{Reason: "exit", ExitCode: 3},
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Close(audit.RunEnd{Reason: "exit", Blocked: 2})
	if err != nil {
		t.Fatal(err)
	}
	return dir, s.Run
}

const hostile = "\x1b]0;x\x07</td><script src=//x>alert(1)</script><img src=x onerror=alert(1)>\u202e\"'`{{.Dir}}"

func auditCall(t *testing.T, args ...string) called {
	t.Helper()
	return call(t, &fake{}, t.TempDir(), append([]string{"audit"}, args...)...)
}

// What is named wrongly is told as that, with where to look.
func TestAuditMistakes(t *testing.T) {
	dir, run := recorded(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"show", dir, "nosuchrun"}, "not the id of a run\nhint: \"isolate audit show"},
		{[]string{"show", dir, "20200101-000000.000000-00000000"}, "cannot find run \"20200101-000000.000000-00000000\" in audit log"},
		{[]string{"verify", "--run", "nosuchrun", dir}, "not the id of a run\nhint: \"isolate audit show"},
		{[]string{"prove", dir, run, "99"}, "no such record: the log has 10\nhint: \"isolate audit show"},
	} {
		got := auditCall(t, c.args...)
		if got.code != exitRefused || !strings.Contains(got.stderr, c.want) || strings.Contains(got.stderr, "doctor") {
			t.Errorf("%q: %d %q, want %q", c.args, got.code, got.stderr, c.want)
		}
	}
}

// The list of runs can be read by a program.
func TestShowRunsJSON(t *testing.T) {
	dir, run := recorded(t)
	var list []listedRun
	got := auditCall(t, "show", "--json", dir)
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v: %q", err, got.stdout)
	}
	if l := list[0]; l.Run != run || l.Program != hostile || l.File != hostile || l.ExitCode == nil || *l.ExitCode != 3 || l.Calls != 2 || l.Blocked != 2 {
		t.Errorf("%+v", l)
	}
	empty := t.TempDir()
	write(t, empty, hostLogFile, "")
	if got := auditCall(t, "show", "--json", empty); got.code != 0 || got.stdout != "[]\n" {
		t.Errorf("no runs: %d %q %q", got.code, got.stdout, got.stderr)
	}
}

// The report shows text of hostile programs as text.
func TestReportEscapes(t *testing.T) {
	dir, run := recorded(t)
	got := auditCall(t, "report", dir)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("%d %s", got.code, got.stderr)
	}
	page := strings.ToLower(got.stdout)
	for _, bad := range []string{"<script", "<img", "\x1b", "\x07", "src=\"", "href=\"http", "url(", "@import", "<link"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	for _, want := range []string{"&lt;script src=//x&gt;", "In order.", `id="` + run + `"`, "failed:", "refused: unknown_tool", "default-src 'none'", "1.5ms"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestShowEscapes(t *testing.T) {
	dir, run := recorded(t)
	for _, args := range [][]string{{"show", dir}, {"show", dir, run}, {"tail", dir, run}} {
		got := auditCall(t, args...)
		if got.code != 0 || strings.ContainsAny(got.stdout, "\x1b\x07\u202e") || !strings.Contains(got.stdout, "script") {
			t.Errorf("%q prints (%d)\n%q\n%s", args, got.code, got.stdout, got.stderr)
		}
	}
	if got := auditCall(t, "verify", dir); got.code != 0 || !strings.Contains(got.stdout, "name the key you know") {
		t.Errorf("%+v", got)
	}
}

// tail without a run follows those that begin, until it is told to stop.
func TestTailFollowsAll(t *testing.T) {
	key, err := audit.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "log")
	l, err := audit.Open(dir, audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	done := make(chan int)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: out, stderr: io.Discard, dir: "/", getenv: func(string) (string, bool) { return "", false }}
		done <- a.main(ctx, []string{"audit", "tail", dir})
		out.Close()
	}()
	r, err := l.Run(audit.RunStart{}, audit.ProgramStart{Program: "p"})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			all.Write(buf[:n])
			if strings.Contains(all.String(), "limit.hit") || err != nil {
				seen <- all.String()
				_, _ = io.Copy(io.Discard, in)
				return
			}
		}
	}()
	if err := r.Append(audit.LimitHit{Limit: "wall"}); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-seen:
		if !strings.Contains(s, r.ID()+"    1 ") {
			t.Errorf("tail prints %s", s)
		}
	case <-time.After(20 * time.Second):
		t.Error("tail prints nothing")
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("tail ends with %d", code)
	}
	if _, err := r.Close(audit.RunEnd{}); err != nil {
		t.Fatal(err)
	}
}

func TestAnchors(t *testing.T) {
	var kept []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/log":
			http.Error(w, "no", http.StatusForbidden)
		case r.Method == http.MethodPost:
			kept, _ = io.ReadAll(r.Body)
		case kept == nil:
			http.NotFound(w, r)
		default:
			_, _ = w.Write(kept)
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	a := &app{dir: dir}
	for _, text := range []string{s.URL + "/log", "file", "cmd:f() { case $1 in remember) cat >" + dir + "/c;; recall) cat " + dir + "/c || true;; esac; }; f"} {
		anchor := a.anchor(text)
		if b, err := anchor.Recall(); b != nil || err != nil {
			t.Errorf("%s remembers %q, %v", text, b, err)
		}
		if err := anchor.Remember([]byte("a\nb\n")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if b, err := anchor.Recall(); string(b) != "a\nb\n" || err != nil {
			t.Errorf("%s remembers %q, %v", text, b, err)
		}
	}
	for _, text := range []string{s.URL + "/other", "cmd:false #", "cmd:head -c 100000 /dev/zero #", dir} {
		if b, err := a.anchor(text).Recall(); err == nil {
			t.Errorf("%s remembers %d bytes", text, len(b))
		}
	}
	s.Close()
	if err := a.anchor(s.URL + "/log").Remember(nil); err == nil {
		t.Error("an anchor that is not there has remembered")
	}
}
