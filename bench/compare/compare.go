// Package compare measures isolate beside other ways to start the same
// programs, in one interleaved run on one machine.
//
// A round has one run of every contender, each round in another order, so that a
// machine whose speed drifts slows all of them alike and nobody always follows
// the same neighbour.
// Figures are worth something as ratios within one report. A contender that is
// not installed, or fails, is a row that says so. What contenders print is
// counted and dropped; of what a failing one says, a bounded part is shown.
//
// It starts programs that are part of the system, and the peers that are
// installed, as the caller; all that it makes is below a temporary directory
// that is removed. It needs what package isolate needs, which must have been
// initialized (isolate.Init).
package compare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/isolate-run/isolate/bench/peers"
	"github.com/isolate-run/isolate/bench/result"
)

// Options of Run. The zero value measures everything.
type Options struct {
	// Executable is the isolate command, a host path; empty leaves the
	// contenders out that are whole commands, and says so.
	Executable string
	// Rounds is how often each contender runs a short program; long ones run
	// less often, see docs/benchmarks.md. Zero means DefaultRounds.
	Rounds int
	// Effort is how much is done where rounds do not say it.
	Effort Effort
	// Only are the workloads to measure, of Workloads; nil means all.
	Only []string
	// Contenders are those that take part, beside fork+exec; nil means all.
	Contenders []string
	// Environ is what whole commands of isolate are started with.
	Environ []string
	// Progress is told what is measured next; nil means nobody.
	Progress func(what string)
}

// DefaultRounds gives a 99th percentile that is not just the slowest run.
const DefaultRounds = 200

// Effort is how much is done.
type Effort int

// The efforts.
const (
	Full  Effort = iota
	Quick        // shorter blocks, at most 50 kept sandboxes
)

// Run measures. The error says that nothing could be measured, or that ctx
// ended; what single contenders could not do is in the report, but for its
// Date, Version and Command, which are the caller's.
func Run(ctx context.Context, o Options) (rep result.Report, err error) {
	if o.Rounds == 0 {
		o.Rounds = DefaultRounds
	}
	if err := o.check(); err != nil {
		return rep, err
	}
	c, err := newComparison(ctx, o)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	rep.Machine = thisMachine()
	if rep.Contenders, err = c.look(ctx); err != nil {
		return rep, err
	}
	for _, w := range workloads() {
		if o.wants(w.name) && ctx.Err() == nil {
			o.say(w.name)
			rep.Latencies = append(rep.Latencies, c.latency(ctx, w))
		}
	}
	if o.wants(workersName) && ctx.Err() == nil {
		o.say(workersName)
		rep.Throughput = c.throughput(ctx)
	}
	if o.wants(keptName) && ctx.Err() == nil {
		o.say(keptName)
		rep.Growth = c.growth(ctx)
	}
	rep.Weakenings = c.weakenings
	return rep, ctx.Err()
}

func (o Options) wants(workload string) bool {
	return o.Only == nil || slices.Contains(o.Only, workload)
}

func (o Options) say(what string) {
	if o.Progress != nil {
		o.Progress(what)
	}
}

// UnknownError is a name that is none of those there are.
type UnknownError struct {
	Kind, Name string
	Have       []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("cannot find %s %q: there are %s", e.Kind, e.Name, strings.Join(e.Have, ", "))
}

func (o Options) check() error {
	var errs []error
	for _, list := range []struct {
		kind        string
		names, have []string
	}{{"workload", o.Only, Workloads()}, {"contender", o.Contenders, Contenders()}} {
		for _, n := range list.names {
			if !slices.Contains(list.have, n) {
				errs = append(errs, &UnknownError{list.kind, n, list.have})
			}
		}
	}
	return errors.Join(errs...)
}

// comparison is what goes on during one Run.
type comparison struct {
	options Options
	dir     string // removed at the end
	ground  peers.Ground
	isolate isolates
	all     []*contender
	runs    atomic.Int64 // command lines made so far
	shuffle func(n int) []int
	// weakenings are those of the plan of isolate's runs.
	weakenings []string
}

func newComparison(ctx context.Context, o Options) (*comparison, error) {
	view, err := peers.HostView()
	if err != nil {
		return nil, err
	}
	// as the kernel names it in mountinfo
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err == nil {
		temp, err = filepath.Abs(temp)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find the temporary directory: %w", err)
	}
	dir, err := os.MkdirTemp(temp, "isolate-bench-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	c := &comparison{options: o, dir: dir, shuffle: rand.New(rand.NewPCG(1, 2)).Perm} // the same orders in each report
	c.ground = peers.Ground{Dir: filepath.Join(dir, "p"), UID: os.Getuid(), GID: os.Getgid(), View: view}
	if err := errors.Join(os.Mkdir(c.ground.Dir, 0o700), os.WriteFile(c.marker(), nil, 0o600)); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a directory: %w", err), os.RemoveAll(dir))
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.all = c.contenders()
	return c, nil
}

// marker is a file that a program must not see.
func (c *comparison) marker() string { return filepath.Join(c.dir, "marker") }

func (c *comparison) close() error {
	return errors.Join(c.isolate.close(), remove(c.dir))
}

// remove removes a directory that nothing is mounted below. A peer has the
// host's /usr mounted there while it runs: should it have left that behind, it
// is not ours to remove.
func remove(dir string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%s is still mounted; unmount it, then remove %s", mounts[0].Mountpoint, dir)
	}
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("cannot remove the directory of the comparison: %w", err)
	}
	return nil
}

// rounds are how many a workload has, of which a short one has all.
func (o Options) rounds(share int) int {
	return max(o.Rounds/share, min(o.Rounds, leastRounds))
}

// leastRounds are had by long workloads too, if the caller wants as many.
const leastRounds = 5

// latency measures one workload.
func (c *comparison) latency(ctx context.Context, w workload) result.Latency {
	l := result.Latency{Workload: w.name, Runs: w.runs, Rounds: c.options.rounds(w.share)}
	if l.Missing = w.missing(ctx, c); l.Missing != "" {
		return l
	}
	var entrants []*entrant
	for _, who := range c.all {
		if who.takes(w) {
			entrants = append(entrants, c.enter(ctx, who, w.program))
		}
	}
	for range l.Rounds {
		for _, i := range c.shuffle(len(entrants)) {
			entrants[i].measure(ctx)
		}
	}
	for _, e := range entrants {
		l.Rows = append(l.Rows, result.LatencyRow{Contender: e.who.name, Why: e.why, Samples: e.samples})
	}
	l.Settle()
	for i := range l.Rows {
		if r := &l.Rows[i]; r.Why == "" {
			r.Bars = latencyBars(w.name, *r)
		}
	}
	return l
}

// entrant is a contender with one program.
type entrant struct {
	who     *contender
	program program
	start   start
	why     string // why it is out; empty while it is not
	samples []time.Duration
}

// warmUps are runs before the first round: cold caches are not what is
// measured.
const warmUps = 2

// enter prepares a contender and warms it up.
func (c *comparison) enter(ctx context.Context, who *contender, p program) *entrant {
	e := &entrant{who: who, program: p, why: who.missing}
	if e.why != "" {
		return e
	}
	var err error
	if e.start, err = who.prepare(p); err != nil {
		e.why = err.Error()
		return e
	}
	for i := 0; i < warmUps && e.why == ""; i++ {
		e.once(ctx)
	}
	return e
}

// once runs the program and says how long it took. A run that fails takes the
// contender out.
func (e *entrant) once(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	out := &counter{}
	began := time.Now()
	err := e.start(ctx, out)
	took := time.Since(began)
	if err == nil && out.n != e.program.output {
		err = fmt.Errorf("it printed %d bytes, not %d", out.n, e.program.output)
	}
	if err != nil {
		e.why, e.samples = err.Error(), nil
	}
	if e.who.settle != nil {
		e.who.settle(ctx)
	}
	return took
}

// longest is the time that one run may take.
const longest = 2 * time.Minute

func (e *entrant) measure(ctx context.Context) {
	if e.why != "" {
		return
	}
	if took := e.once(ctx); e.why == "" {
		e.samples = append(e.samples, took)
	}
}

// counter counts what a program prints.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}
