package prove

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// TestMain lets the test binary be the program.
func TestMain(m *testing.M) {
	isolate.Init()
	if len(os.Args) == 2 && os.Args[1] == "attempt" {
		if err := Attempt(os.Stdin, os.Stdout); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// demonstrate makes the demonstration with a Runtime.
func demonstrate(t *testing.T, rt Runtime) Report {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Runtime: rt, Executable: exe, Args: []string{"attempt"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		t.Logf("%+v", row)
	}
	return r
}

func open(t *testing.T) *isolate.Runtime {
	t.Helper()
	rt, err := isolate.Open(context.Background(), isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func testHeld(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := demonstrate(t, open(t))
	if !r.Held || len(r.Problems) > 0 {
		t.Errorf("not held: %v", r.Problems)
	}
	if r.Log == nil || r.Refused < 12 {
		t.Errorf("the log is %+v, and %d calls were refused", r.Log, r.Refused)
	}
	// the bar is 5 s on a machine of its own
	if r.Took > 60*time.Second {
		t.Errorf("it took %s", r.Took)
	}
}

func TestHeld(t *testing.T)     { testHeld(t) }
func TestRootHeld(t *testing.T) { testenv.Require(t, testenv.Root); testHeld(t) }

// bare runs the program on the host, with namespaces or without, in place of a
// sandbox.
type bare struct {
	t     *testing.T
	flags uintptr
}

func (b bare) Run(ctx context.Context, _ isolate.Policy, c isolate.Cmd) (isolate.Result, error) {
	dir := b.t.TempDir()
	if err := os.Link(c.In[0].Source, filepath.Join(dir, c.In[0].Target)); err != nil {
		if out, err := exec.Command("cp", c.In[0].Source, filepath.Join(dir, c.In[0].Target)).CombinedOutput(); err != nil {
			b.t.Fatalf("%s", out)
		}
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, c.Stdin, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: b.flags}
	out, err := cmd.Output()
	return isolate.Result{Reason: isolate.ReasonExit, Stdout: isolate.Stream{Kept: out}}, err
}

func verdicts(r Report) map[string]Verdict {
	m := map[string]Verdict{}
	for _, row := range r.Rows {
		m[row.Attempt] = row.Verdict
	}
	return m
}

// Without any sandbox every listener is reached, and nothing is tried that is
// for addresses of others.
func TestNoSandbox(t *testing.T) {
	r := demonstrate(t, bare{t, 0})
	if r.Held || len(r.Problems) == 0 {
		t.Error("held, without a sandbox and a log")
	}
	v := verdicts(r)
	for _, name := range []string{"the host's TCP", "the host's UDP", "the host's abstract socket"} {
		if v[name] != Leak {
			t.Errorf("%s: %s", name, v[name])
		}
	}
	for _, a := range away() {
		if want := Unproven; a.Away && v[a.Name] != want {
			t.Errorf("%s: %s, want %s", a.Name, v[a.Name], want)
		}
	}
	if v["tool call"] != Failed {
		t.Errorf("the tool call without a bridge: %s", v["tool call"])
	}
}

// A network namespace alone keeps the listeners out of reach, and is not enough:
// nothing is recorded, and the kernel's side doors are open.
func TestNamespaceOnly(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := demonstrate(t, bare{t, syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET})
	v := verdicts(r)
	if r.Held || v["netlink"] != Leak {
		t.Errorf("held %v, netlink %s", r.Held, v["netlink"])
	}
	for _, name := range []string{"TCP", "metadata service", "DNS query"} {
		if v[name] != Unrecorded {
			t.Errorf("%s: %s", name, v[name])
		}
	}
}

func TestAttemptReadsStrictly(t *testing.T) {
	var out strings.Builder
	if err := Attempt(strings.NewReader("{"), &out); err == nil || out.Len() > 0 {
		t.Errorf("it takes garbage and writes %q", out.String())
	}
	if err := Attempt(strings.NewReader(`[{"name":"x","deed":"call","call":"reboot"}]`), &out); err != nil || !strings.Contains(out.String(), "unknown attempt") {
		t.Errorf("%v %q", err, out.String())
	}
}
