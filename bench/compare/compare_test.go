package compare

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bench/result"
	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// withPeer measures /bin/true with a bubblewrap that is this script of the
// shell; an empty one is none.
func withPeer(t *testing.T, script string) result.Report {
	t.Helper()
	testenv.Require(t, testenv.UserNS)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if script != "" {
		script = "#!/bin/sh\nPATH=/usr/bin:/bin\ncd " + dir + "\n[ \"$1\" = --version ] && echo version 1 && exit\nwhile [ \"$1\" != --chdir ]; do shift; done; shift 2\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(context.Background(), Options{Rounds: 3, Only: []string{"true"}, Contenders: []string{isolateName, result.Peer}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func row(t *testing.T, r result.Report, contender string) (result.Contender, result.LatencyRow) {
	t.Helper()
	c := slices.IndexFunc(r.Contenders, func(c result.Contender) bool { return c.Name == contender })
	l := slices.IndexFunc(r.Latencies[0].Rows, func(r result.LatencyRow) bool { return r.Contender == contender })
	if c < 0 || l < 0 {
		t.Fatalf("%s is left out", contender)
	}
	return r.Contenders[c], r.Latencies[0].Rows[l]
}

func TestEveryContenderHasARow(t *testing.T) {
	r := withPeer(t, "")
	for _, name := range Contenders() {
		if name == preloadedName {
			continue // takes Python programs only
		}
		c, l := row(t, r, name)
		switch name {
		case result.Bare, isolateName:
			if l.Why != "" || len(l.Samples) != 3 || l.P50 <= 0 || l.ToBare <= 0 {
				t.Errorf("%s: %+v", name, l)
			}
		case result.Peer:
			if c.Missing != "not installed" || l.Why != "not installed" {
				t.Errorf("%s: %q, %q", name, c.Missing, l.Why)
			}
		default:
			if l.Why == "" || len(l.Samples) > 0 {
				t.Errorf("%s was not chosen and has %+v", name, l)
			}
		}
	}
	_, l := row(t, r, isolateName)
	for _, b := range l.Bars {
		if strings.Contains(b.Text, result.Peer) {
			t.Errorf("a bar beside nothing: %+v", b)
		}
	}
}

func TestLayersOfIsolateAreSeen(t *testing.T) {
	c, _ := row(t, withPeer(t, ""), isolateName)
	want := slices.DeleteFunc(slices.Clone(result.Layers), func(l result.Layer) bool { return l == result.CleanEnv })
	for _, l := range want { // the environment is that of this test, which has no marker
		if !slices.Contains(c.Seen, l) {
			t.Errorf("a program in a sandbox does not see %q: %s", l, c.Unseen)
		}
	}
}

func TestPeerThatWorks(t *testing.T) {
	c, l := row(t, withPeer(t, `exec "$@"`), result.Peer)
	if l.Why != "" || len(l.Samples) != 3 || c.Version != "version 1" {
		t.Errorf("%+v %+v", c, l)
	}
	for _, ns := range []result.Layer{result.UserNS, result.NetNS, result.HiddenFiles} {
		if slices.Contains(c.Seen, ns) {
			t.Errorf("a peer that does nothing is said to have %q", ns)
		}
	}
}

func TestPeerThatFails(t *testing.T) {
	c, l := row(t, withPeer(t, `printf 'no\033[31m luck\n%0999d' 1 >&2; exit 3`), result.Peer)
	if c.Missing != broken || l.Why != broken || len(l.Samples) > 0 {
		t.Errorf("%+v %+v", c, l)
	}
	if !strings.HasPrefix(c.Why, "exit status 3: no") || len(c.Why) > 300 || strings.Contains(c.Why, "\x1b") {
		t.Errorf("what it said is shown as it is: %q", c.Why)
	}
}

func TestPeerThatFailsLater(t *testing.T) {
	_, l := row(t, withPeer(t, `echo >>runs; [ $(wc -l <runs) -lt 5 ] || exit 1; exec "$@"`), result.Peer)
	if !strings.Contains(l.Why, "exit status 1") || len(l.Samples) > 0 {
		t.Errorf("%+v", l)
	}
}

// What a peer prints is not believed, and not kept.
func TestPeerThatTalks(t *testing.T) {
	c, l := row(t, withPeer(t, `head -c 5000000 /dev/zero; echo "ns-net net:[7]"; echo "end ."`), result.Peer)
	if c.Unseen == "" || len(c.Seen) > 0 {
		t.Errorf("layers %q of a flood, %q", c.Seen, c.Unseen)
	}
	if l.Why != "" || len(l.Samples) != 3 {
		t.Errorf("%+v", l)
	}
}

// What a peer has left mounted is not removed. The mount is made by a child, in
// namespaces of its own.
func TestMountsAreNotRemoved(t *testing.T) {
	const variable = "ISOLATE_BENCH_TEST_DIR"
	dir := os.Getenv(variable)
	if dir == "" {
		testenv.Require(t, testenv.UserNS)
		dir = t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "of", "tree"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMountsAreNotRemoved$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestMountsAreNotRemoved") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	of, tree := filepath.Join(dir, "of"), filepath.Join(dir, "of", "tree")
	if err := syscall.Mount("tmpfs", tree, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(tree, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := remove(of); err == nil || !strings.Contains(err.Error(), tree) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if err := errors.Join(syscall.Unmount(tree, 0), remove(of)); err != nil {
		t.Error(err)
	}
}

// A program that prints less than it should has not done its work.
func TestOutputIsCounted(t *testing.T) {
	c := &comparison{options: Options{Rounds: 1}}
	bare := &contender{name: result.Bare, prepare: c.bare(nil)}
	p := program{key: "x", args: []string{"/bin/echo", "four"}, output: 5}
	if e := c.enter(t.Context(), bare, p); e.why != "" {
		t.Error(e.why)
	}
	p.output = 6
	if e := c.enter(t.Context(), bare, p); !strings.Contains(e.why, "printed 5 bytes, not 6") {
		t.Errorf("why: %q", e.why)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Rounds: 1000, Only: []string{"true"}, Contenders: []string{isolateName}}
	o.Progress = func(string) { cancel() }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	_, err := Run(t.Context(), Options{Only: []string{"nothing"}, Contenders: []string{"docker"}})
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), "docker") {
		t.Errorf("%v", err)
	}
}

func TestRounds(t *testing.T) {
	for _, c := range []struct{ rounds, share, want int }{{200, 1, 200}, {200, 10, 20}, {20, 10, 5}, {2, 10, 2}, {2, 1, 2}} {
		if got := (Options{Rounds: c.rounds}).rounds(c.share); got != c.want {
			t.Errorf("%d rounds shared by %d: %d, want %d", c.rounds, c.share, got, c.want)
		}
	}
}

// Every promise is of a workload and a contender that there are.
func TestPromises(t *testing.T) {
	for _, p := range promises {
		if !slices.Contains(Workloads(), p.workload) || !slices.Contains(Contenders(), p.contender) {
			t.Errorf("a bar of %q at %q", p.contender, p.workload)
		}
	}
}

func TestGrowth(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	g, err := Growth(t.Context(), []int{0, 3}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Levels) != 2 || g.Levels[1].Kept != 3 || len(g.Levels[1].Samples) != 2 || g.Levels[1].ToFirst <= 0 || len(g.Bars) != 1 {
		t.Errorf("%+v", g)
	}
	if g.Levels[1].Descriptors <= g.Levels[0].Descriptors {
		t.Errorf("three kept sandboxes have no descriptors: %+v", g.Levels)
	}
}

func TestThroughput(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r, err := Run(t.Context(), Options{Rounds: 1, Effort: Quick, Only: []string{workersName}, Contenders: []string{isolateName}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Throughput.Workers {
		if r.Throughput.Rate(isolateName, w) <= 0 || r.Throughput.Rate(result.Bare, w) <= 0 {
			t.Errorf("%d workers did nothing: %+v", w, r.Throughput.Rows)
		}
	}
}
