package isolate

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/plan"
)

// AuditSeal is what to remember of the log of a run: with it, verification
// detects that the log was set back or written anew.
type AuditSeal struct {
	Run  string `json:"run"`
	Size int64  `json:"size"` // number of records
	Root string `json:"root"` // hash of their tree
	Key  string `json:"key"`  // id of the key that signed them
}

// record is what becomes known of one sandbox: its log, and its telemetry. Its
// methods do nothing if it is nil.
type record struct {
	follower
	logged bool          // a log keeps it
	opened chan struct{} // closed when run or err is set
	run    events
	err    error

	mu     sync.Mutex
	seen   denial.Summary // refused calls that are recorded
	failed error          // why a record could not be written
	open   map[int64]bool // calls that ended as unknown and whose tools run on
	twice  int64          // ends of calls that had ended as unknown
	kill   func()         // ends what runs; nil before anything does

	watching  sync.Once
	stop      chan struct{} // ends the watch; closed by conclude
	watch     sync.WaitGroup
	closing   sync.Once
	concluded atomic.Bool
	seal      *AuditSeal
	counts    map[string]int64 // records in the sealed log by event
	closeErr  error
}

// events is where the events of a run go: to a log, or to telemetry alone.
type events interface {
	payloader
	// Append fails if something could not be kept.
	Append(...audit.Event) error
	// AppendLater is told of that afterwards.
	AppendLater(failed func(error), e ...audit.Event) error
	// Close writes the last of them. Its error is as that of Append.
	Close(audit.RunEnd, ...audit.Event) (audit.Seal, error)
}

var (
	_ events = (*audit.Run)(nil)
	_ events = (*audit.Unlogged)(nil)
)

// blockedEvery is how often refused calls are recorded while a program runs.
const blockedEvery = time.Second

// record begins the log of a run, behind the making of its sandbox.
func (r *Runtime) record(ctx context.Context, pl plan.Plan, c Cmd) *record {
	l := c.Audit
	if l == nil {
		l = r.options.Audit
	}
	if !r.records(l) {
		return nil
	}
	var p payloader = (*audit.Unlogged)(nil)
	if l != nil {
		p = l
	}
	return r.openRecord(ctx, l, TelemetryRun{Plan: pl, Program: c.Args[0]}, runStart(pl), programStart(p, c))
}

// checkAudit refuses a log of its own to a run of a Runtime that has one: who
// runs programs must not choose what the Runtime's log leaves out.
func (r *Runtime) checkAudit(c Cmd) error {
	if c.Audit == nil || r.options.Audit == nil || c.Audit == r.options.Audit {
		return nil
	}
	return &plan.Refusal{Problems: []plan.Problem{{
		What: "cannot record the run in a log of its own", Rule: "all runs here are recorded in one log",
		Remedy: "leave --audit out, or add --no-server; in Go, leave Cmd.Audit out",
	}}}
}

// refused records that the machine or a plan refused a run, if that is what err
// is. A nil log records nothing.
func refused(l *audit.Log, program, digest string, err error) error {
	var refusal *plan.Refusal
	if l == nil || !errors.As(err, &refusal) {
		return err
	}
	e := audit.RunRefused{Program: program, Plan: digest}
	for _, p := range refusal.Problems {
		e.Reasons = append(e.Reasons, p.What+": "+p.Rule)
	}
	if failed := l.Refused(e); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// refused is that for a command, of which telemetry is told too.
func (r *Runtime) refused(ctx context.Context, c Cmd, pl plan.Plan, err error) error {
	program := ""
	if len(c.Args) > 0 {
		program = c.Args[0]
	}
	if t := r.options.Telemetry; t != nil {
		t.Run(ctx, TelemetryRun{Plan: pl, Program: program}).End(Result{Reason: ReasonSandboxError}, err)
	}
	l := r.options.Audit
	if l == nil {
		l = c.Audit
	}
	return refused(l, program, pl.Digest, err)
}

// recordKept begins the log of a kept sandbox.
func (r *Runtime) recordKept(ctx context.Context, pl plan.Plan) *record {
	if !r.records(r.options.Audit) {
		return nil
	}
	start := runStart(pl)
	start.Kept = true
	return r.openRecord(ctx, r.options.Audit, TelemetryRun{Plan: pl}, start)
}

// records tells whether there is a log or anybody who follows.
func (r *Runtime) records(l *audit.Log) bool { return l != nil || r.options.Telemetry != nil }

// openRecord begins a record; there is somebody for it.
func (r *Runtime) openRecord(ctx context.Context, l *audit.Log, about TelemetryRun, start audit.RunStart, first ...audit.Event) *record {
	rec := &record{logged: l != nil, opened: make(chan struct{}), stop: make(chan struct{})}
	var seen audit.Watch
	if t := r.options.Telemetry; t != nil {
		rec.to = t.Run(ctx, about)
		seen = rec.to.Records
	}
	go func() {
		defer close(rec.opened)
		if l == nil {
			rec.run, rec.err = audit.NewUnlogged(seen, start, first...)
			return
		}
		rec.run, rec.err = l.RunWatched(seen, start, first...)
	}()
	return rec
}

func runStart(pl plan.Plan) audit.RunStart {
	s := audit.RunStart{
		Kernel: kernelRelease(), Plan: pl.Digest, Filter: pl.FilterDigest, Profile: pl.Profile, Net: pl.Net, Root: pl.Root, View: pl.CellKey,
		Identity: string(pl.Identity.Mode), LimitsBy: pl.Limits.By, Memory: pl.Limits.Memory, PIDs: int64(pl.Limits.PIDs),
		Wall: pl.Limits.Wall.Milliseconds(),
	}
	for _, w := range pl.Weakenings {
		s.Weakenings = append(s.Weakenings, string(w))
	}
	return s
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// payloader makes what stands in a record for arguments.
type payloader interface{ Payload([]byte) *audit.Payload }

func programStart(p payloader, c Cmd) audit.ProgramStart {
	s := audit.ProgramStart{Program: c.Args[0], File: c.File, Dir: c.Dir, Env: slices.Sorted(maps.Keys(c.Env))}
	if b, err := json.Marshal(c.Args); err == nil {
		s.Args = p.Payload(b)
	}
	return s
}

// ready waits until the log is open and its first records are durable.
func (r *record) ready() error {
	<-r.opened
	return r.err
}

// append makes events durable. When that fails, what runs is ended.
func (r *record) append(events ...audit.Event) error {
	if r == nil {
		return nil
	}
	if err := r.ready(); err != nil {
		return err
	}
	err := r.run.Append(events...)
	r.fail(err)
	return err
}

// later records events behind what they tell, in their order and within
// milliseconds. When that fails, what runs is ended.
func (r *record) later(events ...audit.Event) error {
	if r == nil {
		return nil
	}
	if err := r.ready(); err != nil {
		return err
	}
	err := r.run.AppendLater(r.fail, events...)
	r.fail(err)
	return err
}

// fail ends what runs if something could not be recorded.
func (r *record) fail(err error) {
	if err == nil || errors.Is(err, audit.ErrClosed) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return
	}
	r.failed = err
	if r.kill != nil {
		r.kill()
	}
}

// failure is why something could not be recorded; nil if all was.
func (r *record) failure() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// begin is called when a program is about to start. It must not if that fails.
func (r *record) begin(b *box, c Cmd, with company) error {
	if r == nil {
		return nil
	}
	if err := r.ready(); err != nil {
		return err
	}
	r.mu.Lock()
	r.kill = func() {
		b.kills.Add(1)
		_ = b.sandbox.Signal(killSignal)
	}
	r.mu.Unlock()
	r.watching.Do(func() { r.watch.Go(func() { r.follow(b) }) })
	if err := r.failure(); err != nil || with == alone { // program.start is recorded already
		return err
	}
	return r.append(programStart(r.run, c))
}

// follow records refused calls while programs run, so that they are known also
// if this process dies.
func (r *record) follow(b *box) {
	tick := time.NewTicker(blockedEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			if events := r.blocked(b); len(events) > 0 {
				_ = r.append(events...) // its failure is kept
			}
		}
	}
}

// blocked are the refused calls that are listed and not yet recorded.
func (r *record) blocked(b *box) []audit.Event {
	now := b.blocked()
	r.mu.Lock()
	fresh := now.Since(r.seen).Events
	r.seen = now
	r.mu.Unlock()
	var events []audit.Event
	for _, e := range fresh {
		elapsed := time.Duration(e.Elapsed).Microseconds()
		if e.Family != "" || e.Address != "" || strings.HasPrefix(e.Call, "socket") {
			events = append(events, audit.SocketBlocked{
				Call: e.Call, Family: e.Family, Type: e.Type, Address: e.Address, Port: e.Port,
				PID: e.PID, Exe: e.Exe, Errno: e.Errno, Elapsed: elapsed,
			})
			continue
		}
		events = append(events, audit.SyscallDenied{Call: e.Call, PID: e.PID, Exe: e.Exe, Errno: e.Errno, Elapsed: elapsed})
	}
	return events
}

// ended records the end of a program of a kept sandbox.
func (r *record) ended(res Result) error {
	if r == nil {
		return nil
	}
	return r.append(programEvents(res)...)
}

// programEvents are how a program ended and what it met.
func programEvents(res Result) []audit.Event {
	var events []audit.Event
	limit := func(name string, count int64) {
		if count > 0 || string(res.Reason) == name {
			events = append(events, audit.LimitHit{Limit: name, Count: count})
		}
	}
	limit(string(ReasonWall), 0)
	limit(string(ReasonCPU), 0)
	limit(string(ReasonOOM), res.Usage.OOMKills)
	limit(string(ReasonPIDs), res.Usage.PIDsDenied)
	limit(string(ReasonDisk), 0)
	limit(string(ReasonOutput), 0)
	for _, s := range []struct {
		name string
		of   Stream
	}{{"stdout", res.Stdout}, {"stderr", res.Stderr}} {
		if s.of.Dropped > 0 {
			events = append(events, audit.OutputTruncated{Stream: s.name, Total: s.of.Total, Dropped: s.of.Dropped})
		}
	}
	return append(events, audit.ProgramEnd{
		Reason: string(res.Reason), ExitCode: res.ExitCode, Signal: res.Signal, NotStarted: res.NotStarted,
		Wall: res.Usage.Wall.Microseconds(), CPU: res.Usage.CPU.Microseconds(), Memory: res.Usage.Memory,
		Stdout: res.Stdout.Total, Stderr: res.Stderr.Total, StdoutSHA256: res.Stdout.SHA256, StderrSHA256: res.Stderr.SHA256,
	})
}

// files records what was copied in or out.
func (r *record) files(way string, m Manifest) error {
	if r == nil {
		return nil
	}
	return r.append(fileEvents(way, m)...)
}

// maxFiles bounds the files that have records of their own.
const maxFiles = 100

func fileEvents(way string, m Manifest) []audit.Event {
	sum := audit.FilesCopied{Way: way, Files: int64(len(m.Files)), Skipped: int64(len(m.Skipped))}
	if b, err := json.Marshal(m); err == nil {
		d := sha256.Sum256(b)
		sum.Manifest = "sha256:" + hex.EncodeToString(d[:])
	}
	var list []audit.Event
	for i, f := range m.Files {
		sum.Bytes += f.Size
		if i < maxFiles {
			list = append(list, audit.FileCopied{Way: way, Path: f.Path, Size: f.Size, SHA256: f.SHA256})
		}
	}
	return append([]audit.Event{sum}, list...)
}

// abandon ends the log of a run for which there was no sandbox.
func (r *record) abandon(reason Reason, why error) error {
	if r == nil {
		return nil
	}
	err := r.conclude(audit.RunEnd{Reason: string(reason), Error: why.Error()}, nil)
	r.end(Result{Reason: reason}, why)
	return err
}

// finish ends the log of a run. Its programs and calls have ended; err is why
// the sandbox did not do its job.
func (r *record) finish(b *box, res *Result, err error) error {
	if r == nil {
		return nil
	}
	var events []audit.Event
	end := audit.RunEnd{Reason: string(res.Reason)}
	if err == nil {
		events = programEvents(*res)
	} else {
		end.Error = err.Error()
	}
	if res.Out != nil {
		events = append(events, fileEvents("out", *res.Out)...)
	}
	told := r.failure() != nil // then it is what err says
	errEnd := r.conclude(r.totals(b, end, &events), events)
	r.tally(b)
	res.Audit = r.seal
	r.end(*res, errors.Join(err, errEnd))
	if told {
		return nil
	}
	return errEnd
}

// close ends the log of a kept sandbox; that of a run has ended before.
func (r *record) close(b *box) error {
	if r == nil || r.concluded.Load() {
		return nil
	}
	var events []audit.Event
	err := r.conclude(r.totals(b, audit.RunEnd{Reason: "closed"}, &events), events)
	r.tally(b)
	r.end(Result{}, err)
	return err
}

// totals adds what was counted in the sandbox as a whole.
func (r *record) totals(b *box, end audit.RunEnd, events *[]audit.Event) audit.RunEnd {
	all := b.blocked()
	*events = append(r.blocked(b), *events...)
	unrouted, err := b.noRoute()
	if err != nil && end.Error == "" {
		end.Error = err.Error()
	}
	if all.Total > 0 || unrouted > 0 {
		*events = append(*events, audit.BlockedCounts{Total: all.Total, Folded: all.Folded, ByCall: all.ByCall, Unrouted: unrouted})
	}
	if s := b.calls.summary(); s != nil {
		*events = append(*events, audit.BridgeTotals{
			Accepted: s.Accepted, Done: s.Done, Failed: s.Failed, Refused: s.Refused, Folded: s.Folded, Unknown: s.Unknown, Ignored: s.Ignored,
		})
	}
	end.Blocked = all.Total
	return end
}

func (r *record) conclude(end audit.RunEnd, events []audit.Event) error {
	r.closing.Do(func() {
		r.concluded.Store(true)
		close(r.stop)
		r.watch.Wait()
		if r.closeErr = r.ready(); r.closeErr != nil {
			return
		}
		var s audit.Seal
		if s, r.closeErr = r.run.Close(end, events...); r.closeErr == nil && r.logged {
			c := s.Checkpoint
			r.counts = s.Counts
			r.seal = &AuditSeal{Run: s.Run, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Key: s.Key}
		}
	})
	return r.closeErr
}
