// Package bridge_test attacks the tool bridge from inside real sandboxes, and
// uses it as programs do. Cases are those of the product's list, parts B and C.
package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// python is the distribution's own: others may lie where a sandbox has nothing.
const python = "/usr/bin/python3"

func open(t *testing.T) *isolate.Runtime {
	t.Helper()
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs, testenv.Python3)
	r, err := isolate.Open(t.Context(), isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

type value struct {
	Value json.RawMessage `json:"value"`
}

// tools are what the hostile programs call.
func tools(t *testing.T) (*isolate.Tools, *atomic.Int64) {
	t.Helper()
	set, counted := &isolate.Tools{}, &atomic.Int64{}
	set.Options.MaxCalls = bridge.NoLimit
	raw := func(name string, f func(context.Context, isolate.ToolCall) (isolate.ToolReply, error)) {
		set.Add(isolate.Tool{Name: name, Timeout: 2 * time.Second, Run: f})
	}
	raw("echo", func(_ context.Context, c isolate.ToolCall) (isolate.ToolReply, error) {
		var v value
		err := json.Unmarshal(c.Args, &v)
		return isolate.ToolReply{Value: v.Value}, err
	})
	raw("count", func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) {
		return isolate.ToolReply{Value: json.RawMessage(fmt.Sprint(counted.Add(1)))}, nil
	})
	raw("boom", func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) { panic("secret") })
	raw("wrong", func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) {
		return isolate.ToolReply{}, errors.New("cannot open /root/secret")
	})
	raw("denied", func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) {
		return isolate.ToolReply{}, &isolate.ToolError{Class: bridge.Denied, Code: bridge.CodeDenied, Message: "not you"}
	})
	raw("utf8", func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) {
		return isolate.ToolReply{Value: json.RawMessage("\"\xff\"")}, nil
	})
	raw("bytes", func(_ context.Context, c isolate.ToolCall) (isolate.ToolReply, error) {
		var n struct{ N int }
		if err := json.Unmarshal(c.Args, &n); err != nil {
			return isolate.ToolReply{}, err
		}
		return isolate.ToolReply{Value: json.RawMessage(`"` + strings.Repeat("x", n.N) + `"`)}, nil
	})
	raw("sleep", func(ctx context.Context, c isolate.ToolCall) (isolate.ToolReply, error) {
		var n struct{ MS int }
		if err := json.Unmarshal(c.Args, &n); err != nil {
			return isolate.ToolReply{}, err
		}
		select {
		case <-time.After(time.Duration(n.MS) * time.Millisecond):
			return isolate.ToolReply{Value: json.RawMessage("true")}, nil
		case <-ctx.Done():
			return isolate.ToolReply{}, ctx.Err()
		}
	})
	return set, counted
}

// program is a command that runs a file of testdata.
func program(name string, args ...string) isolate.Cmd {
	return isolate.Cmd{
		Args: append([]string{python, "/workspace/" + name}, args...),
		In:   []isolate.Input{{Source: "testdata/rpc.py"}, {Source: "testdata/" + name}},
	}
}

// run runs a program that is to say its last line, want.
func run(t *testing.T, r *isolate.Runtime, set *isolate.Tools, c isolate.Cmd, want string) isolate.Result {
	t.Helper()
	c.Tools = set
	res, err := r.Run(t.Context(), isolate.Policy{Wall: 2 * time.Minute, Disk: 64 << 20}, c)
	if err != nil {
		t.Fatal(err)
	}
	if res.Reason != isolate.ReasonExit || res.ExitCode != 0 || !strings.HasPrefix(string(res.Stdout.Kept), want) {
		t.Errorf("ended with %s %d %s, printed %q, want %q\n%s", res.Reason, res.ExitCode, res.Detail, res.Stdout.Kept, want, res.Stderr.Kept)
	}
	if res.Calls == nil {
		t.Fatal("no calls in the result")
	}
	return res
}

// Each program attacks, checks what it is answered, and then makes an honest
// call; what it must not have reached is checked here.
func TestAttacks(t *testing.T) {
	r := open(t)
	for _, name := range []string{"notregular.py", "ids.py", "bodies.py", "forge.py", "unreadable.py", "full.py", "tools.py"} {
		t.Run(strings.TrimSuffix(name, ".py"), func(t *testing.T) {
			set, _ := tools(t)
			res := run(t, r, set, program(name), "ok\n")
			t.Logf("%d accepted, %d done, %d failed, %d refused, %d ignored", res.Calls.Accepted, res.Calls.Done, res.Calls.Failed, res.Calls.Refused, res.Calls.Ignored)
			if name == "ids.py" && res.Calls.Ignored < 15 {
				t.Errorf("%d names ignored, want 15 at least", res.Calls.Ignored)
			}
			if res.Calls.Unknown != 0 {
				t.Errorf("%d calls are unknown: %+v", res.Calls.Unknown, res.Calls.Calls)
			}
		})
	}
}

// B64: exactly MaxCalls run, whatever comes at once.
func TestCallLimit(t *testing.T) {
	r := open(t)
	for n, want := range map[int]string{51: "50 1\n", 100: "50 50\n"} {
		set, counted := tools(t)
		set.Options = bridge.Options{MaxPending: 1000}
		res := run(t, r, set, program("parallel.py", fmt.Sprint(n)), want)
		if counted.Load() != 50 || res.Calls.Accepted != 50 {
			t.Errorf("of %d calls %d ran, %d were accepted; want 50", n, counted.Load(), res.Calls.Accepted)
		}
	}
}

// B54, B58: whatever the program does to names and bytes, the arguments that
// ran are those that were recorded.
func TestRace(t *testing.T) {
	r := open(t)
	set, _ := tools(t)
	res := run(t, r, set, program("race.py", "5"), "ok")
	t.Logf("%s: %d done, %d refused", strings.TrimSpace(string(res.Stdout.Kept)), res.Calls.Done, res.Calls.Refused)
	benign, evil := digest(`{"value":"benign"}`), digest(`{"value":"evil--"}`)
	for _, c := range res.Calls.Calls {
		if c.State == bridge.Done && c.Class == "" && c.ArgsDigest != benign && c.ArgsDigest != evil && c.ArgsDigest != digest(`{"value":42}`) {
			t.Errorf("call %s ran with arguments that nobody wrote: %+v", c.ID, c)
		}
	}
}

// B63: the supervisor's memory stays bounded and the budget holds.
func TestFlood(t *testing.T) {
	r := open(t)
	set, counted := tools(t)
	set.Options.MaxCalls = 50
	before := residentMemory(t)
	res := run(t, r, set, program("flood.py"), "left []\n")
	if grown := residentMemory(t) - before; grown > 64<<20 {
		t.Errorf("the supervisor grew by %d MiB", grown>>20)
	}
	if counted.Load() != 50 || res.Calls.Refused+res.Calls.Accepted != 20000 {
		t.Errorf("%d ran, want 50; %d refused, %d accepted", counted.Load(), res.Calls.Refused, res.Calls.Accepted)
	}
	if len(res.Calls.Calls) > bridge.MaxRecords {
		t.Errorf("%d records", len(res.Calls.Calls))
	}
}

// B67, C14: a program that is killed, or ends, while a tool runs: the run
// returns at once, the call is unknown, and its context has ended.
func TestEndsMidCall(t *testing.T) {
	r := open(t)
	for name, c := range map[string]struct {
		script string
		reason isolate.Reason
		policy isolate.Policy
	}{
		"leaves": {"exit 3", isolate.ReasonExit, isolate.Policy{}},
		"killed": {"kill -9 $$", isolate.ReasonSignal, isolate.Policy{}},
		"wall":   {"sleep 60", isolate.ReasonWall, isolate.Policy{Wall: 5 * time.Second}},
		"oom":    {"exec /usr/bin/python3 -c 'b=bytearray(300<<20)'", isolate.ReasonOOM, isolate.Policy{Memory: 64 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			set := &isolate.Tools{}
			begun, ended := make(chan struct{}), make(chan struct{})
			set.Add(isolate.Tool{Name: "wait", Run: func(ctx context.Context, _ isolate.ToolCall) (isolate.ToolReply, error) {
				close(begun)
				<-ctx.Done()
				close(ended)
				return isolate.ToolReply{}, ctx.Err()
			}})
			set.Add(isolate.Tool{Name: "begun", Run: func(context.Context, isolate.ToolCall) (isolate.ToolReply, error) {
				<-begun
				return isolate.ToolReply{}, nil
			}})
			script := `cd /workspace/_rpc/req; for t in wait begun; do echo '{"tool":"'$t'","args":{}}' > .tmp; mv .tmp req_$t.json; done
until [ -e ../resp/resp_begun.done ]; do sleep 0.05; done; ` + c.script
			begin := time.Now()
			res, err := r.Run(t.Context(), c.policy, isolate.Cmd{Args: []string{"/bin/sh", "-c", script}, Tools: set})
			if err != nil || res.Reason != c.reason {
				t.Errorf("ended with %s (%s), %v; want %s", res.Reason, res.Detail, err, c.reason)
			}
			if took := time.Since(begin); took > 40*time.Second {
				t.Errorf("returned after %s", took)
			}
			if res.Calls == nil || res.Calls.Unknown != 1 || len(res.Calls.Calls) != 2 {
				t.Errorf("calls: %+v; want one of two that is unknown", res.Calls)
			}
			select {
			case <-ended:
			case <-time.After(60 * time.Second):
				t.Error("the tool's context has not ended")
			}
		})
	}
}

// Two runs, and two programs in one kept sandbox, call at once: each gets its
// own answers, and the records of a run are its own.
func TestKeptSandbox(t *testing.T) {
	r := open(t)
	set, _ := tools(t)
	box, err := r.SandboxWithTools(t.Context(), isolate.Policy{}, set)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if _, err := box.CopyIn(t.Context(), []isolate.Input{{Source: "testdata/rpc.py"}}); err != nil {
		t.Fatal(err)
	}
	const script = "import sys; sys.path.insert(0, '/workspace')\nfrom rpc import *\nfor i in range(50):\n v = [sys.argv[1], i]\n a = call('echo', {'value': v})\n assert a['result'] == v, a\nprint('ok')"
	results := make(chan isolate.Result, 2)
	for _, who := range []string{"a", "b"} {
		go func() {
			res, err := box.Run(context.Background(), isolate.Cmd{Args: []string{python, "-c", script, who}})
			if err != nil {
				t.Error(err)
			}
			results <- res
		}()
	}
	for range 2 {
		if res := <-results; string(res.Stdout.Kept) != "ok\n" {
			t.Errorf("%q %s", res.Stdout.Kept, res.Stderr.Kept)
		}
	}
	res, err := box.Run(t.Context(), isolate.Cmd{Args: []string{python, "-c", script, "c"}})
	if err != nil || res.Calls == nil || res.Calls.Done != 50 || len(res.Calls.Calls) != 50 {
		t.Errorf("%v, calls %+v; want the 50 of this run", err, res.Calls)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}

// asker answers after a while.
type asker struct {
	wait time.Duration
	say  bridge.Decision
}

func (a asker) Approve(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
	select {
	case <-time.After(a.wait):
		return a.say, nil
	case <-ctx.Done():
		return bridge.Decision{}, ctx.Err()
	}
}

// C39 (openclaw#154733): the run's clock stands still while a person decides,
// edited arguments are what runs, and a denial is an error of its own.
func TestApproval(t *testing.T) {
	r := open(t)
	script := "import sys; sys.path.insert(0, '/workspace')\nfrom rpc import *\na = call('ask', {'value': 1})\nprint(a.get('result'), a.get('class'), a.get('code'))"
	for name, c := range map[string]struct {
		ask  bridge.Approver
		want string
	}{
		"granted, slower than the limit": {asker{7 * time.Second, bridge.Decision{Verdict: bridge.Allow, By: "me"}}, "1 None None\n"},
		"edited":                         {asker{0, bridge.Decision{Verdict: bridge.Allow, Args: json.RawMessage(`{"value":2}`)}}, "2 None None\n"},
		"denied":                         {asker{0, bridge.Decision{}}, "None denied denied\n"},
		"nobody":                         {nil, "None denied nobody_to_ask\n"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &isolate.Tools{}
			set.Options.Approver = c.ask
			set.Add(isolate.Tool{Name: "ask", Approve: bridge.ApproveAsk, Run: func(_ context.Context, c isolate.ToolCall) (isolate.ToolReply, error) {
				var v value
				err := json.Unmarshal(c.Args, &v)
				return isolate.ToolReply{Value: v.Value}, err
			}})
			res, err := r.Run(t.Context(), isolate.Policy{Wall: 5 * time.Second}, isolate.Cmd{
				Args: []string{python, "-c", script}, In: []isolate.Input{{Source: "testdata/rpc.py"}}, Tools: set,
			})
			if err != nil || string(res.Stdout.Kept) != c.want || res.Reason != isolate.ReasonExit {
				t.Errorf("%s %q %s %v; want %q", res.Reason, res.Stdout.Kept, res.Stderr.Kept, err, c.want)
			}
			if len(res.Calls.Calls) != 1 || res.Calls.Calls[0].Approval == nil {
				t.Errorf("no decision is recorded: %+v", res.Calls)
			}
			if strings.HasPrefix(name, "granted") && res.Usage.Held < 6*time.Second {
				t.Errorf("the clock stood still for %s, want 7 s", res.Usage.Held)
			}
		})
	}
}

// C2, B1: in one program, an address outside is unreachable at once and the
// tool answers.
func TestContrast(t *testing.T) {
	r := open(t)
	url := listener(t)
	set, _ := tools(t)
	script := `
import sys, time, urllib.request; sys.path.insert(0, "/workspace")
from rpc import *
begin = time.monotonic()
try:
    urllib.request.urlopen("` + url + `", timeout=60)
    print("reached")
except OSError as e:
    took = time.monotonic() - begin
    print("unreachable" if took < 20 else "unreachable, slowly")
works()
`
	res, err := r.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{python, "-c", script}, In: []isolate.Input{{Source: "testdata/rpc.py"}}, Tools: set})
	if err != nil || string(res.Stdout.Kept) != "unreachable\n" || res.ExitCode != 0 {
		t.Errorf("%q %s %v", res.Stdout.Kept, res.Stderr.Kept, err)
	}
	if res.Calls.Done != 1 {
		t.Errorf("calls: %+v", res.Calls)
	}
}

// What the bridge adds to the workspace is not the program's: it is not copied out.
func TestBridgeIsNotOutput(t *testing.T) {
	r := open(t)
	set, _ := tools(t)
	out := filepath.Join(t.TempDir(), "out")
	res, err := r.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/sh", "-c", "echo x > own"}, Tools: set, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(out)
	if len(left) != 1 || left[0].Name() != "own" {
		t.Errorf("copied out %v; manifest %+v", left, res.Out)
	}
}

// As root the program is another user than we are: files have to be its own.
func TestRootAttacks(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := open(t)
	for _, name := range []string{"notregular.py", "forge.py", "full.py", "tools.py"} {
		t.Run(strings.TrimSuffix(name, ".py"), func(t *testing.T) {
			set, _ := tools(t)
			run(t, r, set, program(name), "ok\n")
		})
	}
}

// W1: a program that loops over a failing tool, or one that is not there,
// reaches the limit like any other.
func TestFailingCallsCount(t *testing.T) {
	r := open(t)
	for _, call := range []string{"call('boom', {})", "call('nothing', {})", "call('echo', [])"} {
		set, _ := tools(t)
		set.Options = bridge.Options{}
		script := `
import sys; sys.path.insert(0, "/workspace")
from rpc import *
codes = [` + call + `["code"] for _ in range(51)]
print(len([c for c in codes[:50] if c == "tool_call_limit"]), codes[50])
`
		res, err := r.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{python, "-c", script}, In: []isolate.Input{{Source: "testdata/rpc.py"}}, Tools: set})
		if err != nil || string(res.Stdout.Kept) != "0 tool_call_limit\n" || res.Calls.Accepted != 50 {
			t.Errorf("%s: %q %s %v, %d accepted; want the 51st to meet the limit", call, res.Stdout.Kept, res.Stderr.Kept, err, res.Calls.Accepted)
		}
	}
}
