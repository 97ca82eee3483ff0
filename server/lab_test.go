package server_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/server"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// weak lets the tests run where there is no controller for limits.
const weak = `allow = ["weak-limits"]`

// lab is a server with a Runtime of its own.
type lab struct {
	*client.Client
	t       testing.TB
	runtime *isolate.Runtime
	server  *server.Server
	socket  string
}

func newLab(t testing.TB, o isolate.Options, so server.Options) *lab {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	rt, err := isolate.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	so.Runtime = rt
	srv, err := server.New(so)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "isolate-s-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, runtime: rt, server: srv, socket: filepath.Join(dir, "s")}
	listener, err := server.Listen(l.socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	l.Client = client.New(l.socket)
	t.Cleanup(func() {
		l.Client.Close()
		srv.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return l
}

// ran is what came of a run.
type ran struct {
	id, stdout, stderr string
	code               int
	result             isolate.Result
	problems           []client.Problem
}

func (r *ran) take(t testing.TB, e client.Event) {
	t.Helper()
	switch e.Type {
	case client.EventStarted:
		r.id = e.ID
	case client.EventStdout:
		r.stdout += string(e.Data)
	case client.EventStderr:
		r.stderr += string(e.Data)
	case client.EventResult:
		r.code = e.CommandExitCode
		if err := json.Unmarshal(e.Result, &r.result); err != nil {
			t.Error(err)
		}
	case client.EventError:
		r.code, r.problems = e.CommandExitCode, e.Problems
	default:
		t.Errorf("event %q", e.Type)
	}
}

// run runs a program to its end.
func (l *lab) run(q client.RunRequest) ran {
	l.t.Helper()
	if q.Policy == "" {
		q.Policy = weak
	}
	var r ran
	if err := l.Run(context.Background(), q, func(e client.Event) error { r.take(l.t, e); return nil }); err != nil {
		l.t.Fatalf("%v: %v", q.Args, err)
	}
	return r
}

func within(t testing.TB, what string, true func() bool) {
	t.Helper()
	for began := time.Now(); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 60*time.Second {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// descriptors counts the open ones of this process, by what they are.
func descriptors(t testing.TB) map[string]int {
	t.Helper()
	runtime.GC() // files that are garbage are closed by their finalizers
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue
		}
		kind, _, _ := strings.Cut(to, ":")
		kinds[kind]++
		kinds["all"]++
	}
	return kinds
}
