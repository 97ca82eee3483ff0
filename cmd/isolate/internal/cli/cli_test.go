package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake stands in for the Runtime: what is tested here is what the command
// makes of flags, and of what the Runtime answers. The scripts of cmd/isolate
// run the real one.
type fake struct {
	openErr, planErr, closeErr error
	plan                       plan.Plan
	// run answers Run; nil gives a program that exits with 0.
	run func(context.Context, isolate.Cmd) (isolate.Result, error)

	mu     sync.Mutex
	opened int
	closed int
	policy isolate.Policy
	cmd    isolate.Cmd
}

func (f *fake) open(context.Context, isolate.Options) (runtime, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openErr != nil {
		return nil, f.openErr
	}
	f.opened++
	return f, nil
}

func (f *fake) Plan(_ context.Context, p isolate.Policy) (plan.Plan, error) {
	f.policy = p
	return f.plan, f.planErr
}

func (f *fake) Run(ctx context.Context, p isolate.Policy, c isolate.Cmd) (isolate.Result, error) {
	f.mu.Lock()
	f.policy, f.cmd = p, c
	f.mu.Unlock()
	if f.run == nil {
		return isolate.Result{Reason: isolate.ReasonExit}, nil
	}
	return f.run(ctx, c)
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return f.closeErr
}

// ends gives a fake whose program ends with a result.
func ends(r isolate.Result) *fake {
	return &fake{run: func(context.Context, isolate.Cmd) (isolate.Result, error) { return r, nil }}
}

// called is one call of the command and what came of it.
type called struct {
	code           int
	stdout, stderr string
}

// call runs the command with a fake Runtime in an empty environment, in dir.
func call(t testing.TB, f *fake, dir string, args ...string) called {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := testApp(f, dir, strings.NewReader(""), &stdout, &stderr)
	code := a.main(t.Context(), args)
	if f.opened != f.closed {
		t.Errorf("the Runtime was opened %d times and closed %d times", f.opened, f.closed)
	}
	return called{code, stdout.String(), stderr.String()}
}

// testEnv is the environment of the caller in tests.
var testEnv = map[string]string{
	"HOME": "/home/someone", "XDG_RUNTIME_DIR": "/run/user/1500",
	"TERM": "vt220", "TOKEN": "s3cret", "EMPTY": "", "ODD NAME": "x",
}

func testApp(f *fake, dir string, stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		environ: func() []string { return []string{"PATH=/usr/bin:/bin"} },
		getenv:  func(k string) (string, bool) { v, ok := testEnv[k]; return v, ok },
		dir:     dir,
		open:    f.open,
	}
}

// write makes a file below dir.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// golden compares got with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (run with -update and review):\n%s", path, got)
	}
}
