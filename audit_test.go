package isolate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
)

// audited is a Runtime with a log.
type audited struct {
	*isolate.Runtime
	log *audit.Log
	dir string
	key *audit.Key
}

func openAudited(t *testing.T) audited {
	t.Helper()
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs, testenv.Python3)
	a := audited{dir: filepath.Join(t.TempDir(), "log")}
	var err error
	if a.key, err = audit.LoadKey(filepath.Join(t.TempDir(), "key")); err != nil {
		t.Fatal(err)
	}
	if a.log, err = audit.Open(a.dir, audit.Options{Key: a.key}); err != nil {
		t.Fatal(err)
	}
	if a.Runtime, err = isolate.Open(t.Context(), isolate.Options{Audit: a.log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Runtime.Close(); err != nil {
			t.Error(err)
		}
		if err := a.log.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// events are the records of a run.
func (a audited) events(t *testing.T, run string) (names []string, list []audit.Event) {
	t.Helper()
	err := audit.Records(a.dir, run, func(r audit.Record) error {
		e, err := r.Decode()
		names, list = append(names, string(r.Event)), append(list, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, list
}

func (a audited) verify(t *testing.T, states ...string) {
	t.Helper()
	rep, err := audit.Verify(a.dir, audit.VerifyOptions{Keys: []string{a.key.VerifierKey()}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rep.Runs {
		got = append(got, r.State)
	}
	if len(rep.Problems) > 0 || !slices.Equal(got, states) {
		t.Errorf("the log verifies as %v, %v", got, rep.Problems)
	}
}

func TestAuditOfARun(t *testing.T) {
	a := openAudited(t)
	out := filepath.Join(t.TempDir(), "out")
	res, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{
		Args: []string{"python3", "-c", "import socket\ntry: socket.create_connection(('192.0.2.7', 443), 1)\nexcept OSError: pass\nopen('made', 'w').write('x')"},
		Env:  map[string]string{"SECRET": "s3cret"},
		Out:  out,
	})
	if err != nil || res.Audit == nil {
		t.Fatalf("%+v, %v", res, err)
	}
	names, list := a.events(t, res.Audit.Run)
	for _, want := range []string{"run.start", "program.start", "socket.blocked", "program.end", "files.copied", "file.copied", "blocked.counts", "run.end"} {
		if !slices.Contains(names, want) {
			t.Errorf("the log has no %s: %v", want, names)
		}
	}
	if names[0] != "run.start" || names[1] != "program.start" || names[len(names)-1] != "run.end" || int(res.Audit.Size) != len(names) {
		t.Errorf("the events are %v", names)
	}
	for _, e := range list {
		switch e := e.(type) {
		case audit.RunStart:
			if e.Plan != res.Plan || e.Net != "none" || e.Kernel == "" || e.Filter == "" {
				t.Errorf("%+v", e)
			}
		case audit.ProgramStart:
			if e.Program != "python3" || e.Args == nil || !slices.Equal(e.Env, []string{"SECRET"}) {
				t.Errorf("%+v", e)
			}
		case audit.SocketBlocked:
			if e.Address != "192.0.2.7" || e.Port != 443 || e.Errno != "ENETUNREACH" {
				t.Errorf("%+v", e)
			}
		case audit.BlockedCounts:
			if e.Total != res.Blocked.Total {
				t.Errorf("%+v, the result has %+v", e, res.Blocked)
			}
		}
	}
	whole, err := os.ReadFile(filepath.Join(a.dir, "runs", res.Audit.Run[:8], res.Audit.Run+".log"))
	if err != nil || strings.Contains(string(whole), "s3cret") || strings.Contains(string(whole), "create_connection") {
		t.Errorf("the log tells secrets: %v", err)
	}
	a.verify(t, audit.StateEnded)
}

// Who runs a program cannot keep it out of the Runtime's log.
func TestOneLogOnly(t *testing.T) {
	a := openAudited(t)
	other, err := audit.Open(filepath.Join(t.TempDir(), "other"), audit.Options{Key: a.key})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var refusal *plan.Refusal
	if _, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"true"}, Audit: other}); !errors.As(err, &refusal) {
		t.Errorf("a run with a log of its own gives %v", err)
	}
	if res, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"true"}, Audit: a.log}); err != nil || res.Audit == nil {
		t.Errorf("%+v, %v", res, err)
	}
}

// A run that is refused leaves a record of it, though it has no log.
func TestRefusedRun(t *testing.T) {
	a := openAudited(t)
	for _, refused := range []struct {
		policy isolate.Policy
		cmd    isolate.Cmd
	}{
		{isolate.Policy{Rootfs: "/no/such\x01"}, isolate.Cmd{Args: []string{"sh"}}},
		{isolate.Policy{}, isolate.Cmd{Args: []string{"/proc/self/exe"}}},
	} {
		var refusal *plan.Refusal
		if _, err := a.Run(t.Context(), refused.policy, refused.cmd); !errors.As(err, &refusal) {
			t.Fatalf("it gives %v", err)
		}
	}
	var list []audit.RunRefused
	err := audit.Records(a.dir, "", func(r audit.Record) error {
		e, err := r.Decode()
		if e, is := e.(audit.RunRefused); is {
			list = append(list, e)
		}
		return err
	})
	if err != nil || len(list) != 2 || list[0].Program != "sh" || list[0].Plan != "" || len(list[0].Reasons) == 0 || list[1].Plan == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if !strings.Contains(list[0].Reasons[0], "/no/such") || !strings.Contains(list[1].Reasons[0], "/proc/self/exe") {
		t.Errorf("%q", list)
	}
	a.verify(t)
}

// cases.md B 79: without a log nothing runs.
func TestNothingRunsWithoutARecord(t *testing.T) {
	a := openAudited(t)
	if err := os.RemoveAll(a.dir); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"echo", "ran"}, Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), "audit log") || out.Len() > 0 {
		t.Errorf("it ran: %q, %v", &out, err)
	}
	if s, err := a.Sandbox(t.Context(), isolate.Policy{}); err == nil {
		s.Close()
		t.Error("a kept sandbox was made")
	}
}

// A call is on disk before its tool runs, and its end before the program goes
// on; cases.md C 41.
func TestAuditOfCalls(t *testing.T) {
	a := openAudited(t)
	var tools isolate.Tools
	var before []string
	type in struct {
		N int `json:"n"`
	}
	err := isolate.AddTool(&tools, isolate.Tool{Name: "look"}, func(_ context.Context, v in) (int, error) {
		open, err := audit.Runs(a.dir)
		if err != nil {
			return 0, err
		}
		names, _ := a.events(t, open[0])
		before = append(before, names[len(names)-1])
		return v.N + 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tools.Options.MaxCalls = 2
	res, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Tools: &tools, Args: []string{"python3", "-c",
		"from isolate_tools import look\nprint(look(n=1), look(n=2))\ntry: look(n=3)\nexcept Exception as e: print(type(e).__name__)"}})
	if err != nil || res.Audit == nil || string(res.Stdout.Kept) != "2 3\nToolLimit\n" {
		t.Fatalf("%s%s %v", res.Stdout.Kept, res.Stderr.Kept, err)
	}
	if !slices.Equal(before, []string{"call.accepted", "call.accepted"}) {
		t.Errorf("when the tool ran the last records were %v", before)
	}
	names, list := a.events(t, res.Audit.Run)
	var calls []string
	for i, n := range names {
		if strings.HasPrefix(n, "call.") {
			calls = append(calls, n)
		}
		if c, ok := list[i].(audit.CallAccepted); ok && (c.Tool != "look" || c.Args == nil || c.Args.Size == 0 || c.Args.Text != "") {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(calls, []string{"call.accepted", "call.finished", "call.accepted", "call.finished", "call.refused"}) {
		t.Errorf("the calls are %v", calls)
	}
	a.verify(t, audit.StateEnded)
}

// When something cannot be recorded no further tool runs, and what runs is
// ended. The answer of the call before may be out (docs/adr/0011).
func TestCallThatCannotBeRecorded(t *testing.T) {
	a := openAudited(t)
	var tools isolate.Tools
	ran := 0
	err := isolate.AddTool(&tools, isolate.Tool{Name: "lose"}, func(context.Context, struct{}) (string, error) {
		ran++
		return "done", os.RemoveAll(a.dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var out strings.Builder
	_, err = a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Tools: &tools, Stdout: &out, Args: []string{"python3", "-c",
		"import time\nfrom isolate_tools import lose\nfor i in range(3):\n  try: print(lose(), flush=True)\n  except Exception: pass\ntime.sleep(50)"}})
	if err == nil || !strings.Contains(err.Error(), "deleted") || strings.Count(out.String(), "done") > 1 || ran != 1 {
		t.Errorf("the tool ran %d times, the program saw %q, the error is %v", ran, &out, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the program was ended after %s", took)
	}
}

func TestAuditOfAKeptSandbox(t *testing.T) {
	a := openAudited(t)
	s, err := a.Sandbox(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"true", "false"} {
		if _, err := s.Run(t.Context(), isolate.Cmd{Args: []string{program}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	runs, err := audit.Runs(a.dir)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	names, _ := a.events(t, runs[0])
	if want := []string{"run.start", "program.start", "program.end", "program.start", "program.end", "run.end"}; !slices.Equal(names, want) {
		t.Errorf("the events are %v", names)
	}
	a.verify(t, audit.StateEnded)
}
