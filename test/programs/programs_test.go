// Package programs runs practical programs in sandboxes: interpreters,
// compilers, tools and what people do with them. One table says what each
// needs and prints, and which of them the strict profile does not run;
// docs/profiles.md is written from it.
//
// It does not test isolation or limits. It needs what package isolate needs,
// and the programs below /usr, where a sandbox sees them.
package programs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// patience is the wall limit of a program. The slowest, a compiler, takes ten
// seconds on an idle machine; tests share theirs with others.
const patience = 3 * time.Minute

// program is one row of the table.
type program struct {
	name string
	// does is what it does, for docs/profiles.md.
	does string
	// needs are the features without which the row is skipped.
	needs []testenv.Feature
	// file is what is copied in from testdata: the program, or a directory.
	file string
	args []string
	// policy is what it needs beyond the defaults. Profile and Wall are the
	// test's.
	policy isolate.Policy
	// prints is its standard output, all of it.
	prints string
	// types is what the user types once the terminal shows prompt; with
	// neither the program has no terminal.
	prompt, types string
	// slow rows take most of a minute on a busy machine. TestCompat leaves them
	// out: TestOrder of seccompprofile shows that compat allows all of default.
	slow bool
	// strict is nil if the program runs under the strict profile too.
	strict *refusal
}

// refusal is how a program fails under the strict profile.
type refusal struct {
	says    string // part of what it prints then
	because string // what the profile lacks, for docs/profiles.md
}

// Programs run under the default profile, and leave no more in the record of
// refused calls than the C library does when it looks up a name.
func TestDefault(t *testing.T) { testProfile(t, policy.ProfileDefault) }

// What the default profile runs, the wider one does.
func TestCompat(t *testing.T) { testProfile(t, policy.ProfileCompat) }

// Programs run or fail under the strict profile as the table says. One that
// fails in another way than recorded, or runs, is an error too.
func TestStrict(t *testing.T) { testProfile(t, policy.ProfileStrict) }

// Root's sandboxes have another identity and other cgroups.
func TestRootDefault(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testProfile(t, policy.ProfileDefault)
}

func testProfile(t *testing.T, profile policy.Profile) {
	l := newLab(t)
	for _, p := range programs {
		if p.slow && profile == policy.ProfileCompat {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, p.needs...)
			res, out, err := l.run(t, p, profile)
			switch {
			case profile == policy.ProfileStrict && p.strict != nil:
				p.mustFail(t, res, out, err)
				return
			case err != nil:
				t.Fatal(err)
			}
			p.mustRun(t, res, out)
			if profile != policy.ProfileStrict {
				mustBeQuiet(t, res)
			}
		})
	}
}

func (p program) mustRun(t *testing.T, res isolate.Result, out string) {
	t.Helper()
	if res.Reason != isolate.ReasonExit || res.ExitCode != 0 || out != p.prints {
		t.Errorf("ended with %s %d (%s)\nprinted\n%s\nwant\n%s", res.Reason, res.ExitCode, res.Detail, out, p.prints)
	}
	if len(res.Stderr.Kept) > 0 {
		t.Errorf("complains: %s", res.Stderr.Kept)
	}
}

// mustBeQuiet asserts that an honest program does not look like an attack.
func mustBeQuiet(t *testing.T, res isolate.Result) {
	t.Helper()
	for _, e := range res.Blocked.Events {
		// getaddrinfo asks the kernel for its addresses, and does without
		if e.Family != "AF_NETLINK" {
			t.Errorf("is recorded as an attempt: %+v", e)
		}
	}
}

// mustFail asserts that a program fails as recorded: by itself, or by a policy
// that nobody could enforce.
func (p program) mustFail(t *testing.T, res isolate.Result, out string, err error) {
	t.Helper()
	all := out + string(res.Stderr.Kept)
	var refused *plan.Refusal
	switch {
	case errors.As(err, &refused):
		all = err.Error()
	case err != nil:
		t.Fatal(err)
	case res.Reason != isolate.ReasonExit:
		t.Errorf("ended with %s (%s), want an exit code of its own", res.Reason, res.Detail)
	case res.ExitCode == 0:
		t.Error("runs under the strict profile, though the table says it does not")
	}
	if !strings.Contains(all, p.strict.says) {
		t.Errorf("fails in another way than recorded: want %q in\n%s", p.strict.says, all)
	}
}

// lab is a runtime with a directory of its own.
type lab struct {
	*isolate.Runtime
	dir string
}

// newLab opens a runtime. When the test and its parts have ended it must still
// run programs, and after Close nothing may be left of it.
func newLab(t *testing.T) *lab {
	t.Helper()
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	// t.TempDir is closed to the id of root's sandboxes
	dir, err := os.MkdirTemp("", "isolate-programs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: filepath.Join(dir, "run")}
	if l.Runtime, err = isolate.Open(t.Context(), isolate.Options{Dir: l.dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.finish(t) })
	return l
}

// run runs a program of the table and returns what it printed, on its terminal
// if it has one.
func (l *lab) run(t *testing.T, p program, profile policy.Profile) (isolate.Result, string, error) {
	t.Helper()
	pol := p.policy
	pol.Profile, pol.Wall = profile, patience
	cmd := isolate.Cmd{Args: p.args, In: []isolate.Input{{Source: filepath.Join("testdata", p.file)}}}
	var person *typist
	if p.prompt != "" {
		person = newTypist(p.prompt, p.types)
		cmd.Terminal = &isolate.Terminal{Input: person, Output: person}
	}
	res, err := l.Run(t.Context(), pol, cmd)
	if person != nil {
		return res, person.seen(), err
	}
	return res, string(res.Stdout.Kept), err
}

// finish is the last check of every test.
func (l *lab) finish(t *testing.T) {
	ctx := context.Background() // that of the test has ended
	res, err := l.Run(ctx, isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/sh", "-c", "echo $((6*7))"}})
	if got := string(res.Stdout.Kept); err != nil || got != "42\n" {
		t.Errorf("the runtime does not work any more: %q, %s %s, %v", got, res.Reason, res.Detail, err)
	}
	ids, err := os.ReadDir(l.dir)
	if err != nil || len(ids) != 1 {
		t.Errorf("the run-time directory has %v, %v; want one entry", ids, err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if left, err := os.ReadDir(l.dir); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("files are left in the run-time directory: %v, %v", left, err)
	}
	for _, e := range ids {
		for _, dir := range cgroupsNamed(e.Name()) {
			t.Errorf("cgroup is left: %s", dir)
		}
	}
	if left := children(); len(left) > 0 {
		t.Errorf("processes are left: %s", left)
	}
}

// cgroupsNamed are the cgroup directories of a run-time id, at and below the
// places where this process may have them made.
func cgroupsNamed(id string) []string {
	var found []string
	own, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			for _, dir := range []string{f[2], filepath.Dir(f[2])} {
				hits, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", c, dir, "*"+id+"*"))
				found = append(found, hits...)
			}
		}
	}
	return found
}

// children are the process ids of the children of all threads of ours.
func children() string {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	var all bytes.Buffer
	for _, l := range lists {
		b, _ := os.ReadFile(l) // the thread may have ended
		all.Write(b)
	}
	return all.String()
}

// typist is a person at a terminal: reads until a prompt is there, then types.
type typist struct {
	prompt   string
	types    io.Reader
	prompted chan struct{}

	mu     sync.Mutex
	output []byte
}

func newTypist(prompt, types string) *typist {
	return &typist{prompt: prompt, types: strings.NewReader(types), prompted: make(chan struct{})}
}

// Write takes what the terminal shows.
func (y *typist) Write(b []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	before := bytes.Contains(y.output, []byte(y.prompt))
	y.output = append(y.output, b...)
	if !before && bytes.Contains(y.output, []byte(y.prompt)) {
		close(y.prompted)
	}
	return len(b), nil
}

// Read types. Without a prompt nothing is ever typed.
func (y *typist) Read(b []byte) (int, error) {
	select {
	case <-y.prompted:
		return y.types.Read(b)
	case <-time.After(patience):
		return 0, errors.New("no prompt")
	}
}

// seen is all that the terminal has shown.
func (y *typist) seen() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return string(y.output)
}
