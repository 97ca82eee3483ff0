package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/workspace"
)

// TestEndings: what the command says and exits with, for each way in which a
// run can end.
func TestEndings(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct {
		name string
		args []string
		res  isolate.Result
		code int
	}{
		{"exit 0", nil, isolate.Result{Reason: isolate.ReasonExit}, 0},
		{"exit 42", nil, isolate.Result{Reason: isolate.ReasonExit, ExitCode: 42}, 42},
		{"signal", nil, isolate.Result{Reason: isolate.ReasonSignal, Signal: 11, ExitCode: 139}, 139},
		{"wall", nil, isolate.Result{Reason: isolate.ReasonWall, Signal: 9, ExitCode: 137}, 124},
		{"wall while a tool works", nil, isolate.Result{Reason: isolate.ReasonWall, Calls: &isolate.Calls{Unknown: 1}}, 124},
		{"wall while tools work", nil, isolate.Result{Reason: isolate.ReasonWall, Calls: &isolate.Calls{Unknown: 2}}, 124},
		{"wall of one's own", []string{"--time", "90m"}, isolate.Result{Reason: isolate.ReasonWall}, 124},
		{"cpu", []string{"--cpu-time", "2500ms"}, isolate.Result{Reason: isolate.ReasonCPU}, 124},
		{"oom", nil, isolate.Result{Reason: isolate.ReasonOOM, Signal: 9, ExitCode: 137}, 137},
		{"oom of one's own", []string{"--memory", "64M"}, isolate.Result{Reason: isolate.ReasonOOM, ExitCode: 137}, 137},
		{"pids", nil, isolate.Result{Reason: isolate.ReasonPIDs, ExitCode: 254}, 254},
		{"disk", nil, isolate.Result{Reason: isolate.ReasonDisk, ExitCode: 1}, 1},
		{"output", []string{"--end-on-output"}, isolate.Result{Reason: isolate.ReasonOutput, ExitCode: 137, Stdout: isolate.Stream{Total: 9, Dropped: 4}}, 137},
		{"policy", nil, isolate.Result{Reason: isolate.ReasonPolicy, ExitCode: 159}, 159},
		{"sandbox error", nil, isolate.Result{Reason: isolate.ReasonSandboxError, Detail: "the keeper is gone"}, 125},
		{"sandbox error without detail", nil, isolate.Result{Reason: isolate.ReasonSandboxError}, 125},
		{"cancelled by nobody", nil, isolate.Result{Reason: isolate.ReasonCancelled, ExitCode: 137}, 137},
		{"not found", nil, isolate.Result{Reason: isolate.ReasonExit, NotStarted: "not-found", ExitCode: 127}, 127},
		{"not executable", nil, isolate.Result{Reason: isolate.ReasonExit, NotStarted: "not-executable", ExitCode: 126}, 126},
		{"output dropped", nil, isolate.Result{
			Reason: isolate.ReasonExit,
			Stdout: isolate.Stream{Total: 20, Dropped: 3}, Stderr: isolate.Stream{Total: 20, Dropped: 7},
		}, 0},
		{"output dropped at the end of the caller", nil, isolate.Result{Reason: isolate.ReasonCancelled, ExitCode: 137, Stdout: isolate.Stream{Total: 2, Dropped: 1}}, 137},
		{"files left out", nil, isolate.Result{
			Reason: isolate.ReasonExit,
			In:     &isolate.Manifest{Skipped: []workspace.Entry{{Path: "a/b", Why: "it is a socket"}}},
			Out:    &isolate.Manifest{Skipped: []workspace.Entry{{Path: "\x1b[2J", Why: "it is a device"}, {Path: "c"}}},
		}, 0},
		{"a hook copied out", nil, isolate.Result{Reason: isolate.ReasonExit, Out: &isolate.Manifest{Files: []workspace.Entry{
			{Path: "a", Why: "setuid or setgid bit removed"},
			{Path: ".git/hooks/\x1b[2J", Why: "setuid or setgid bit removed; " + workspace.ActedOn + "git hook; written without its execute bits"},
		}}}, 0},
		{"start-up files copied out", nil, isolate.Result{Reason: isolate.ReasonExit, Out: &isolate.Manifest{Files: []workspace.Entry{
			{Path: ".bashrc", Why: workspace.ActedOn + "shell start-up file"}, {Path: ".envrc", Why: workspace.ActedOn + "directory environment"},
		}}}, 0},
		{"files all copied", nil, isolate.Result{Reason: isolate.ReasonExit, In: &isolate.Manifest{}, Out: &isolate.Manifest{}}, 0},
	} {
		got := call(t, ends(c.res), "/", append(append([]string{"exec"}, c.args...), "--", "a\tb")...)
		if got.code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, got.code, c.code)
		}
		fmt.Fprintf(&all, "# %s\n%s\n", c.name, got.stderr)
	}
	golden(t, "endings.golden", all.String())
}

// TestHostFile: a program that fails for want of a file of the host gets the
// user a word on it, and no other program does.
func TestHostFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "hello.py", "x")
	write(t, dir, "src/a.py", "x")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"exec", "python3", "hello.py"}, 2, "isolate: \"hello.py\" is a file of the host, and the program does not see it: add --in hello.py "},
		{[]string{"exec", "node", "--check", "src/a.py"}, 1, "add --in src/a.py:src/a.py "},
		{[]string{"exec", "python3", "./hello.py"}, 2, "add --in hello.py "},
		{[]string{"exec", "python3", "hello.py"}, 0, ""},
		{[]string{"exec", "python3", "hello.py"}, 3, ""},
		{[]string{"exec", "python3", "nothere.py"}, 2, ""},
		{[]string{"exec", "ls", "src"}, 2, ""},
		{[]string{"exec", "--in", "hello.py", "--", "python3", "hello.py"}, 2, ""},
		{[]string{"run", "hello.py", "hello.py"}, 2, ""},
	} {
		got := call(t, ends(isolate.Result{Reason: isolate.ReasonExit, ExitCode: c.code}), dir, c.args...)
		if got.code != c.code || !strings.Contains(got.stderr, c.want) || (c.want == "") != (got.stderr == "") {
			t.Errorf("%q: %+v, want %q", c.args, got, c.want)
		}
	}
}

// A program that is not inside and lies here is told apart from one that is
// nowhere.
func TestHostProgram(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.out", "x")
	missing := isolate.Result{Reason: isolate.ReasonExit, ExitCode: 127, NotStarted: "not-found"}
	for args, want := range map[string]string{
		"./a.out":              "isolate: cannot run \"./a.out\": it is a file of the host, and not inside; write \"isolate run ./a.out\", or copy it in with --in\n",
		"a.out x":              "isolate: cannot run \"a.out\": it is a file of the host, and not inside; write \"isolate run a.out\", or copy it in with --in\n",
		"./b.out a.out":        notStarted("not-found", "./b.out"),
		"--in a.out -- ./a.ou": notStarted("not-found", "./a.ou"),
	} {
		got := call(t, ends(missing), dir, append([]string{"exec"}, strings.Fields(args)...)...)
		if got.code != 127 || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: %+v, want %q", args, got, want)
		}
	}
}

// TestErrors: isolate not doing its job is 125, whatever the program did.
func TestErrors(t *testing.T) {
	refusal := &plan.Refusal{Problems: []plan.Problem{
		{What: "cannot limit memory", Rule: "there is no memory controller", Remedy: "use systemd-run --user --scope -p Delegate=yes"},
		{What: "cannot show \"/x\"", Rule: "it is a socket", Remedy: "leave it out"},
	}}
	const told = "error: cannot limit memory: there is no memory controller\nhint: use systemd-run --user --scope -p Delegate=yes\n" +
		"error: cannot show \"/x\": it is a socket\nhint: leave it out\n"
	broken := errors.New("cannot start the cell: no space left on device")
	for _, c := range []struct {
		name string
		f    *fake
		args []string
		want string
	}{
		{"open refuses", &fake{openErr: refusal}, nil, told},
		{"open refuses to explain", &fake{openErr: refusal}, []string{"--explain"}, told},
		{"plan refuses", &fake{planErr: refusal}, []string{"--explain"}, told},
		{"run refuses", &fake{run: func(context.Context, isolate.Cmd) (isolate.Result, error) {
			return isolate.Result{}, fmt.Errorf("cannot run: %w", refusal)
		}}, nil, told},
		{"run fails", &fake{run: func(context.Context, isolate.Cmd) (isolate.Result, error) {
			return isolate.Result{}, broken
		}}, nil, toldAs(broken)},
		{"close fails", &fake{closeErr: errors.New("cannot remove cgroup \"x\": device busy")}, nil, toldAs(errors.New("cannot remove cgroup \"x\": device busy"))},
		{"close fails after a plan", &fake{closeErr: broken}, []string{"--explain"}, toldAs(broken)},
		{"no room", &fake{openErr: fmt.Errorf("cannot make it: %w", syscall.ENOSPC)}, nil, "error: cannot make it: no space left on device\nhint: make room there, or write to another place\n"},
		{"too much to copy", &fake{run: func(context.Context, isolate.Cmd) (isolate.Result, error) {
			return isolate.Result{}, fmt.Errorf("cannot copy it; raise it: %w", workspace.ErrLimit)
		}}, nil, "error: cannot copy it; raise it: over a limit\n"},
		{"a port of root's", &fake{openErr: fmt.Errorf("cannot offer metrics: %w", &net.OpError{Op: "listen", Net: "tcp", Err: syscall.EACCES})}, nil, "error: cannot offer metrics: listen tcp: permission denied\nhint: name an address of this machine, and a port above 1023 that nobody uses\n"},
		{"no place to write to", &fake{openErr: unusablePlace(fmt.Errorf("cannot make it: %w", syscall.EROFS))}, nil, "error: cannot make it: read-only file system\nhint: name a directory that you can write to\n"},
		{"a place that is as it should be", &fake{openErr: unusablePlace(broken)}, nil, toldAs(broken)},
		{"its text says what to do", &fake{openErr: errors.New("cannot make it: broken; set X")}, nil, "error: cannot make it: broken\nhint: set X\n"},
		{"the files cannot be copied out", &fake{openErr: &workspace.Refusal{Problems: []workspace.Problem{{What: "cannot copy", Rule: "it is full", Remedy: "empty it"}}}}, nil, "error: cannot copy: it is full\nhint: empty it\n"},
		{"no descriptors", &fake{openErr: fmt.Errorf("cannot open it: %w", syscall.EMFILE)}, nil, "error: cannot open it: too many open files\nhint: raise the limit of open files: ulimit -n 4096\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(t, c.f, "/", append(append([]string{"exec"}, c.args...), "--", "true")...)
			if got != (called{code: exitRefused, stderr: c.want}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// toldAs is an error for which isolate itself may be to blame.
func toldAs(err error) string {
	return "error: " + err.Error() + "\nhint: \"isolate doctor\" says what is missing on this machine; if that is nothing, it is a fault of isolate\n"
}

func TestExplain(t *testing.T) {
	p := plan.Plan{Digest: "sha256:1"}
	f := &fake{plan: p, run: func(context.Context, isolate.Cmd) (isolate.Result, error) {
		t.Error("the program was run")
		return isolate.Result{}, nil
	}}
	if got := call(t, f, "/", "exec", "--explain", "--memory", "1G"); got != (called{stdout: p.Text()}) {
		t.Errorf("text: %+v", got)
	}
	if f.policy.Memory.String() != "1G" {
		t.Errorf("the plan is of %+v", f.policy)
	}
	got := call(t, f, "/", "exec", "--explain=json", "--tty", "true")
	if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, `"digest": "sha256:1"`) {
		t.Errorf("JSON: %+v", got)
	}
}

// TestBytesPassUnchanged: what is no terminal gets what the program wrote.
func TestBytesPassUnchanged(t *testing.T) {
	const bytes = "\x00\x1b]0;t\a\xff\x1b[2J\r\n"
	f := &fake{run: func(_ context.Context, c isolate.Cmd) (isolate.Result, error) {
		io.WriteString(c.Stdout, bytes)
		io.WriteString(c.Stderr, "err"+bytes)
		return isolate.Result{Reason: isolate.ReasonExit}, nil
	}}
	if got := call(t, f, "/", "exec", "x"); got != (called{stdout: bytes, stderr: "err" + bytes}) {
		t.Errorf("got %+v", got)
	}
}

// waits gives a fake whose program runs until it is told to stop, and sends
// itself signals when it has started.
func waits(signals ...syscall.Signal) *fake {
	return &fake{run: func(ctx context.Context, _ isolate.Cmd) (isolate.Result, error) {
		for _, s := range signals {
			_ = syscall.Kill(os.Getpid(), s)
		}
		<-ctx.Done()
		return isolate.Result{Reason: isolate.ReasonCancelled, Signal: 9, ExitCode: 137}, nil
	}}
}

func TestSignals(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		dir := t.TempDir()
		got := call(t, waits(s), dir, "exec", "--meta", "m.json", "sleep")
		if got != (called{code: code}) {
			t.Errorf("%v: got %+v, want code %d and no words", s, got, code)
		}
		if m := readMeta(t, dir+"/m.json"); m["reason"] != "cancelled" || m["command_exit_code"] != float64(code) {
			t.Errorf("%v: document %v", s, m)
		}
	}
}

// A program that ends by itself after a signal has its own code.
func TestSignalThatIsSurvived(t *testing.T) {
	f := &fake{run: func(ctx context.Context, _ isolate.Cmd) (isolate.Result, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		return isolate.Result{Reason: isolate.ReasonExit, ExitCode: 3}, nil
	}}
	if got := call(t, f, "/", "exec", "x"); got != (called{code: 3}) {
		t.Errorf("got %+v", got)
	}
}

// A signal before there is a program is no error of anybody.
func TestSignalWhileStarting(t *testing.T) {
	f := &fake{run: func(ctx context.Context, _ isolate.Cmd) (isolate.Result, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		<-ctx.Done()
		return isolate.Result{}, fmt.Errorf("cannot start the cell: %w", ctx.Err())
	}}
	if got := call(t, f, "/", "exec", "x"); got != (called{code: 130}) {
		t.Errorf("got %+v", got)
	}
}

// TestSecondSignal: the command does not wait for a sandbox that does not end.
func TestSecondSignal(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	started, told := make(chan struct{}), make(chan struct{})
	f := &fake{run: func(ctx context.Context, _ isolate.Cmd) (isolate.Result, error) {
		close(started)
		<-ctx.Done()
		close(told)
		<-release
		return isolate.Result{}, nil
	}}
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	a := testApp(f, dir, nil, &stdout, &stderr)
	done := make(chan int, 1)
	go func() { done <- a.main(t.Context(), []string{"exec", "--meta", "m.json", "x"}) }()
	<-started
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-told // else the two signals may come in the other order
	select {
	case code := <-done:
		t.Fatalf("ended with %d at the first signal, before the sandbox was gone", code)
	case <-time.After(50 * time.Millisecond):
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-done:
		if code != 143 || !strings.Contains(stderr.String(), "told twice to stop") {
			t.Errorf("code %d, standard error %q", code, stderr.String())
		}
	case <-time.After(60 * time.Second):
		t.Fatal("did not end at the second signal")
	}
	if m := readMeta(t, dir+"/m.json"); m["reason"] != "cancelled" || m["problems"] == nil {
		t.Errorf("document %v", m)
	}
}

// TestNobodyReads: like any other filter, `isolate exec … | head` ends without
// words when head has ended.
func TestNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	f := &fake{run: func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
		if _, err := c.Stdout.Write([]byte("y\n")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write: %v, want EPIPE", err)
		}
		<-ctx.Done()
		return isolate.Result{Reason: isolate.ReasonCancelled, ExitCode: 137}, nil
	}}
	var stderr bytes.Buffer
	a := testApp(f, "/", nil, w, &stderr)
	if code := a.main(t.Context(), []string{"exec", "yes"}); code != 141 || stderr.Len() > 0 {
		t.Errorf("code %d, standard error %q", code, stderr.String())
	}
}

// TestOutputLost: output that could not be written is not a success.
func TestOutputLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	f := &fake{run: func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
		c.Stdout.Write([]byte("y\n"))
		<-ctx.Done() // it is ended at once, and not when it likes
		return isolate.Result{Reason: isolate.ReasonCancelled}, nil
	}}
	var stderr bytes.Buffer
	a := testApp(f, "/", nil, full, &stderr)
	code := a.main(t.Context(), []string{"exec", "yes"})
	if want := "error: cannot write standard output: no space left on device\nhint: make room there, or write to another place\n"; code != exitRefused || stderr.String() != want {
		t.Errorf("code %d, standard error %q, want %q", code, stderr.String(), want)
	}
}
