package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/server"
)

// Who reads events in another language than Go finds the exit code in the last
// one, whatever it is.
func TestLastEventHasTheCode(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	for program, want := range map[string]string{"true": `"command_exit_code":0`, "false": `"command_exit_code":1`} {
		c, err := net.Dial("unix", l.socket)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"args": [%q], "policy": %q}`, program, weak)
		fmt.Fprintf(c, "POST /v1/runs HTTP/1.1\r\nHost: isolate\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		answer, err := io.ReadAll(c)
		c.Close()
		if err != nil || strings.Count(string(answer), `"command_exit_code"`) != 1 || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %v", program, answer, err)
		}
	}
}

func TestRun(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	got := l.run(client.RunRequest{Args: []string{"sh", "-c", "cat; echo $A; echo err >&2; exit 3"}, Env: map[string]string{"A": "b"}, Input: []byte("in\n")})
	if got.code != 3 || got.stdout != "in\nb\n" || got.stderr != "err\n" || got.result.Reason != isolate.ReasonExit || got.id == "" {
		t.Errorf("%+v", got)
	}
	list, err := l.Runs(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != got.id || list[0].State != client.StateEnded || *list[0].ExitCode != 3 || list[0].PID != os.Getpid() {
		t.Errorf("%+v, %v", list, err)
	}
	var logs ran
	if err := l.Logs(t.Context(), got.id, func(e client.Event) error { logs.take(t, e); return nil }); err != nil || logs.stdout != got.stdout || logs.code != 3 {
		t.Errorf("%+v, %v", logs, err)
	}
	if err := l.ForgetRun(t.Context(), got.id); err != nil {
		t.Error(err)
	}
	var e *client.Error
	if _, err := l.GetRun(t.Context(), got.id); !errors.As(err, &e) || e.Status != http.StatusNotFound {
		t.Errorf("forgotten: %v", err)
	}
}

// TestRunFiles: host paths are the caller's, who has the same rights.
func TestRunFiles(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	got := l.run(client.RunRequest{Args: []string{"sh", "-c", "cat sub/f > g"}, In: []client.Input{{Source: filepath.Join(dir, "f"), Target: "sub/f"}}, Out: out})
	if text, err := os.ReadFile(filepath.Join(out, "g")); got.code != 0 || string(text) != "x" {
		t.Errorf("%+v, %q, %v", got, text, err)
	}
	for _, q := range []client.RunRequest{{In: []client.Input{{Source: "testdata"}}}, {Out: "testdata/out"}} {
		q.Policy, q.Args = weak, []string{"true"}
		err := l.Run(t.Context(), q, nil)
		var e *client.Error
		if !errors.As(err, &e) || e.Status != http.StatusBadRequest || len(e.Problems) == 0 {
			t.Errorf("a relative path: %v", err)
		}
	}
}

func TestRunIsRefused(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	err := l.Run(t.Context(), client.RunRequest{Policy: weak + "\nrootfs = \"/no/such\"", Args: []string{"true"}}, nil)
	var e *client.Error
	if !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity || len(e.Problems) == 0 {
		t.Errorf("%v", err)
	}
}

// TestOpenInput: input can be sent while the program runs, and output comes as
// it is written.
func TestOpenInput(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	var r ran
	err := l.Run(t.Context(), client.RunRequest{Policy: weak, Args: []string{"sh", "-c", "read a; echo got $a; cat"}, Input: []byte("1\n"), OpenInput: true}, func(e client.Event) error {
		r.take(t, e)
		if r.stdout == "got 1\n" && e.Type == client.EventStdout {
			go func() {
				if err := l.WriteStdin(context.Background(), r.id, strings.NewReader("2\n")); err != nil {
					t.Error(err)
				}
			}()
		}
		return nil
	})
	if err != nil || r.stdout != "got 1\n2\n" || r.code != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	var e *client.Error
	if err := l.WriteStdin(t.Context(), r.id, strings.NewReader("3\n")); !errors.As(err, &e) || e.Status != http.StatusConflict {
		t.Errorf("after the end: %v", err)
	}
}

// TestEnds: a run ends when its caller goes away, when it is killed, and a
// detached one only then.
func TestEnds(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	sleep := client.RunRequest{Policy: weak, Args: []string{"sh", "-c", "echo up; sleep 600"}}
	gone := errors.New("gone")
	var r ran
	err := l.Run(t.Context(), sleep, func(e client.Event) error {
		r.take(t, e)
		if r.stdout != "" {
			return gone
		}
		return nil
	})
	if !errors.Is(err, gone) {
		t.Fatal(err)
	}
	d, err := l.WaitRun(t.Context(), r.id)
	if err != nil || !strings.Contains(string(d.Result), `"cancelled"`) {
		t.Errorf("its caller went away: %+v, %v", d, err)
	}

	d, err = l.Start(t.Context(), sleep)
	if err != nil || d.State != client.StateRunning {
		t.Fatalf("%+v, %v", d, err)
	}
	followed := make(chan ran, 1)
	up := make(chan bool, 1)
	go func() {
		var r ran
		if err := l.FollowLogs(context.Background(), d.ID, func(e client.Event) error {
			r.take(t, e)
			if e.Type == client.EventStdout {
				up <- true
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		followed <- r
	}()
	<-up
	if now, err := l.GetRun(t.Context(), d.ID); err != nil || now.State != client.StateRunning || now.ExitCode != nil {
		t.Errorf("%+v, %v", now, err)
	}
	if err := l.KillRun(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	if r := <-followed; r.stdout != "up\n" || r.result.Reason != isolate.ReasonCancelled {
		t.Errorf("killed: %+v", r)
	}
	if d, err = l.GetRun(t.Context(), d.ID); err != nil || !d.Killed || d.State != client.StateEnded {
		t.Errorf("killed: %+v, %v", d, err)
	}
	var e *client.Error
	if err := l.KillRun(t.Context(), d.ID); !errors.As(err, &e) || e.Status != http.StatusConflict {
		t.Errorf("killed twice: %v", err)
	}
}

func TestSandboxes(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{MaxSandboxes: 1})
	ctx := t.Context()
	s, err := l.NewSandbox(ctx, client.SandboxRequest{Policy: weak + "\ndisk = \"1M\""})
	if err != nil || s.Plan == "" || time.Until(s.Expires) > 10*time.Minute {
		t.Fatalf("%+v, %v", s, err)
	}
	var e *client.Error
	if _, err := l.NewSandbox(ctx, client.SandboxRequest{Policy: weak}); !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("a second one: %v", err)
	}
	data := bytes.Repeat([]byte("0123456789"), 1000)
	w, err := l.PutFile(ctx, s.ID, "d/ü b", 0o755, bytes.NewReader(data))
	if err != nil || w.Size != 10000 || w.Mode != "0755" {
		t.Fatalf("%+v, %v", w, err)
	}
	var r ran
	take := func(e client.Event) error { r.take(t, e); return nil }
	if err := l.RunIn(ctx, s.ID, client.RunRequest{Args: []string{"sh", "-c", "wc -c <'d/ü b'; ln -s /etc/passwd link; mkfifo fifo"}}, take); err != nil || strings.TrimSpace(r.stdout) != "10000" || r.code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	f, err := l.GetFile(ctx, s.ID, "d/ü b", 9995)
	if err != nil {
		t.Fatal(err)
	}
	if part, err := io.ReadAll(f); err != nil || string(part) != "56789" {
		t.Errorf("%q, %v", part, err)
	}
	f.Close()
	list, err := l.ListFiles(ctx, s.ID, "")
	if err != nil || len(list.Files) != 3 || list.Files[0] != (client.File{Name: "d", Kind: "directory", Mode: "0755"}) || list.Files[1].Kind != "FIFO" || list.Files[2].Kind != "symbolic link" {
		t.Errorf("%+v, %v", list, err)
	}
	for path, status := range map[string]int{"none": 404, "link": 422, "fifo": 422, "d": 422, "d/../d/x": 422} {
		if _, err := l.GetFile(ctx, s.ID, path, 0); !errors.As(err, &e) || e.Status != status && status == 404 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := l.PutFile(ctx, s.ID, "big", 0o644, bytes.NewReader(make([]byte, 2<<20))); !errors.As(err, &e) || e.Status != http.StatusInsufficientStorage {
		t.Errorf("too big: %v", err)
	}
	if _, err := l.PutFile(ctx, s.ID, "_rpc/req/x", 0o644, strings.NewReader("x")); !errors.As(err, &e) {
		t.Errorf("into the bridge: %v", err)
	}
	if err := l.DeleteSandbox(ctx, s.ID); err != nil {
		t.Error(err)
	}
	if _, err := l.RenewSandbox(ctx, s.ID); !errors.As(err, &e) || e.Status != http.StatusNotFound {
		t.Errorf("deleted: %v", err)
	}
	within(t, "the sandbox's end", func() bool { return l.runtime.Stats().Sandboxes == 0 })
}

// TestLeases: a sandbox that nobody uses goes, one that is used stays until
// its lifetime has ended, and then goes with what runs in it.
func TestLeases(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	idle, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak, Idle: "300ms"})
	if err != nil {
		t.Fatal(err)
	}
	used, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak, Idle: "3s", Lifetime: "8s"})
	if err != nil {
		t.Fatal(err)
	}
	var r ran
	if err := l.RunIn(t.Context(), used.ID, client.RunRequest{Args: []string{"sleep", "600"}}, func(e client.Event) error { r.take(t, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if age := time.Since(used.Began); age < 8*time.Second || r.code == 0 {
		t.Errorf("the sandbox in use ended after %s: %+v", age, r)
	}
	within(t, "the end of "+idle.ID+" and "+used.ID, func() bool {
		left, err := l.Sandboxes(t.Context())
		return err == nil && len(left) == 0
	})
}

func TestDrain(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	var r ran
	ended := make(chan error, 1)
	up := make(chan bool, 1)
	go func() {
		ended <- l.Run(context.Background(), client.RunRequest{Policy: weak, Args: []string{"sh", "-c", "echo up; sleep 1; echo down"}}, func(e client.Event) error {
			r.take(t, e)
			if r.stdout == "up\n" {
				select {
				case up <- true:
				default:
				}
			}
			return nil
		})
	}()
	<-up
	if err := l.server.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || r.stdout != "up\ndown\n" || r.code != 0 {
		t.Errorf("what ran before: %+v, %v", r, err)
	}
	var none *client.UnreachableError
	if _, err := l.Version(t.Context()); !errors.As(err, &none) {
		t.Errorf("after it: %v", err)
	}
}

// TestOverCapacity: who comes too late is told so.
func TestOverCapacity(t *testing.T) {
	l := newLab(t, isolate.Options{MaxSandboxes: 1, MaxWaiting: 1, Spares: isolate.NoSpares}, server.Options{})
	sleep := client.RunRequest{Policy: weak, Args: []string{"sleep", "600"}}
	for range 2 {
		if _, err := l.Start(t.Context(), sleep); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "one running and one waiting", func() bool { s := l.runtime.Stats(); return s.Sandboxes == 1 && s.Waiting == 1 })
	if r := l.run(sleep); r.code != client.ExitRefused || len(r.problems) != 1 || !strings.Contains(r.problems[0].What, "callers wait already") {
		t.Errorf("%+v", r)
	}
}

// TestKilledBeforeItStarted: a run that is ended while it waits has a result: it
// is nobody's failure.
func TestKilledBeforeItStarted(t *testing.T) {
	l := newLab(t, isolate.Options{MaxSandboxes: 1, Spares: isolate.NoSpares}, server.Options{})
	sleep := client.RunRequest{Policy: weak, Args: []string{"sleep", "600"}}
	if _, err := l.Start(t.Context(), sleep); err != nil {
		t.Fatal(err)
	}
	second, err := l.Start(t.Context(), sleep)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "one waiting", func() bool { return l.runtime.Stats().Waiting == 1 })
	if err := l.KillRun(t.Context(), second.ID); err != nil {
		t.Fatal(err)
	}
	got, err := l.WaitRun(t.Context(), second.ID)
	if err != nil || !strings.Contains(string(got.Result), `"reason":"cancelled"`) || *got.ExitCode != client.ExitRefused {
		t.Errorf("%s, %+v, %v", got.Result, got, err)
	}
	if n := l.runtime.Stats().Runs[isolate.ReasonCancelled]; n != 1 {
		t.Errorf("%d are counted as cancelled", n)
	}
}
