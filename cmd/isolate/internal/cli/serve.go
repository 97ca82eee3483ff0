package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/server"
)

// defaultDrain is how long a server that is told to end waits for what runs.
const defaultDrain = 30 * time.Second

// socketVariable names the socket of the server, for serve and for those that
// look for it. Empty means the default.
const socketVariable = "ISOLATE_SOCKET"

// serveSettings are the flags of serve.
type serveSettings struct {
	socket  string
	metrics string
	drain   time.Duration
	options isolate.Options
	audit   auditRequest
}

// serveFlags are the flags of serve, in the order of the help text.
func serveFlags() []flagSpec {
	return append([]flagSpec{
		{name: "socket", kind: kindFile},
		{name: "max-sandboxes", kind: kindCount},
		{name: "max-waiting", kind: kindCount},
		{name: "max-cells", kind: kindCount},
		{name: "spares", kind: kindCount},
		{name: "idle", kind: kindDuration},
		{name: "drain", kind: kindDuration},
		{name: "metrics", kind: "ADDRESS"},
	}, auditFlags()...)
}

// serveCommand keeps sandboxes ready for this user's other commands.
func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "serve [flags]", Short: serveShort, Long: serveLong, DisableFlagsInUseLine: true}
	f := addFlags(cmd, serveFlags())
	return a.plain(cmd, func() error {
		s, problems := a.readServe(f)
		if len(problems) > 0 {
			a.code = a.refuse(problems...)
			return nil
		}
		if err := a.serve(cmd.Context(), s); err != nil {
			a.code = a.refuse(problemsOf(err)...)
		}
		return nil
	})
}

func (a *app) readServe(f flags) (serveSettings, []plan.Problem) {
	s := serveSettings{drain: defaultDrain}
	r := &reader{app: a, flags: f}
	s.socket, _ = a.getenv(socketVariable)
	read(r, "socket", &s.socket, r.dirOf)
	read(r, "max-sandboxes", &s.options.MaxSandboxes, policy.ParseCount)
	read(r, "max-waiting", &s.options.MaxWaiting, policy.ParseCount)
	read(r, "max-cells", &s.options.MaxCells, policy.ParseCount)
	read(r, "spares", &s.options.Spares, policy.ParseCount)
	read(r, "idle", &s.options.CellIdle, policy.ParseDuration)
	read(r, "drain", &s.drain, policy.ParseDuration)
	read(r, "metrics", &s.metrics, notEmpty)
	s.audit = r.readAudit()
	return s, r.problems
}

// serve serves until a signal; after the first it lets what runs end, after
// the second it ends it.
func (a *app) serve(ctx context.Context, s serveSettings) (err error) {
	i := a.watchSignals(ctx)
	defer i.stop()
	if s.options.Audit, err = s.audit.openLog(i.ctx); err != nil {
		if i.signal() != 0 && errors.Is(err, context.Canceled) {
			return nil // it was told to end before it had begun
		}
		return err
	}
	if s.options.Audit != nil {
		defer func() { err = errors.Join(err, s.options.Audit.Close()) }()
	}
	var end func()
	s.options.Telemetry, end = a.openTelemetry(i.ctx, withMetrics, a.notice)
	if a.unsent != "" {
		a.notice(a.unsent)
	}
	metrics, err := s.listenMetrics()
	if err != nil {
		return err
	}
	rt, err := isolate.Open(i.ctx, s.options)
	if err != nil {
		return errors.Join(err, closeMetrics(metrics))
	}
	defer func() {
		err = errors.Join(err, closeMetrics(metrics))
		end() // before the numbers are gone
		err = errors.Join(err, rt.Close())
	}()
	if s.options.Dir == "" {
		s.options.Dir = isolate.DefaultDir()
	}
	l, err := listen(s)
	if err != nil {
		return err
	}
	// what the default policy lacks here, another may consent to do without
	lacks := problemsOf(rt.Prepare(i.ctx, isolate.Policy{}))
	srv, err := server.New(server.Options{
		Runtime: rt, Version: thisRevision(),
		Call: func(ctx context.Context, c *server.Call) { answerCall(ctx, rt, lacks, c) },
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer srv.Close()
	if metrics != nil {
		defer srv.ServeMetrics(metrics)()
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	fmt.Fprintln(a.stdout, "serving on "+l.Addr().String())
	if len(lacks) > 0 {
		a.print(lacks...)
		a.notice(servesLittle)
	}
	select {
	case err := <-served:
		return err
	case <-i.ctx.Done():
	}
	return errors.Join(a.drain(i, srv, s.drain), <-served)
}

func (a *app) drain(i *interrupts, srv *server.Server, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-i.forced:
			cancel()
		case <-done:
		}
	}()
	if err := srv.Drain(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("cannot wait longer than %s for what runs: it was ended", duration(patience))
	}
	return nil
}

// listenMetrics listens for who asks for the numbers, at a port that is closed to
// programs from then on; nil if nobody is to.
func (s *serveSettings) listenMetrics() (net.Listener, error) {
	if s.metrics == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", s.metrics)
	if err != nil {
		return nil, fmt.Errorf("cannot offer metrics on %q: %w", s.metrics, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		s.options.OwnPorts = append(s.options.OwnPorts, a.Port)
	}
	return l, nil
}

// closeMetrics closes a listener that may be none, or closed by who served it.
func closeMetrics(l net.Listener) error {
	if l == nil {
		return nil
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listen takes the socket that was passed to us, or makes one.
func listen(s serveSettings) (*net.UnixListener, error) {
	l, err := server.Activated()
	if l != nil || err != nil {
		return l, err
	}
	if s.socket == "" {
		s.socket = server.DefaultSocket(s.options.Dir)
	}
	l, err = server.Listen(s.socket)
	return l, unusablePlace(err)
}

// served is the runtime of a server as one command sees it: it stays open.
type served struct {
	*isolate.Runtime
	call *server.Call
}

func (s served) Run(ctx context.Context, p isolate.Policy, c isolate.Cmd) (isolate.Result, error) {
	c.Started = s.call.Started
	res, err := s.Runtime.Run(ctx, p, c)
	s.call.Used(res.Usage)
	return res, err
}

func (served) Close() error { return nil }

// answerCall carries out the command line of another process. lacks is why the
// server refuses the default policy; nil if it does not.
func answerCall(ctx context.Context, rt *isolate.Runtime, lacks []plan.Problem, c *server.Call) {
	signals := newCallSignals(c.Signals)
	a := &app{
		stdin: c.Files[0], stdout: c.Files[1], stderr: c.Files[2],
		getenv:  func(name string) (string, bool) { v, ok := c.Env[name]; return v, ok },
		dir:     c.Dir,
		open:    func(context.Context, isolate.Options) (runtime, error) { return served{rt, c}, nil },
		lending: c.Tools,
		via:     viaServer,
		lacks:   lacks,
		gone:    func() bool { return errors.Is(context.Cause(ctx), isolate.ErrAbandoned) },
		signals: signals,
		descriptor: func(n int) (file, string) {
			return calledDescriptor(c, n)
		},
	}
	c.Exit(a.answer(isolate.WithProcessLimits(ctx, c.Limits), c.Args[1:]))
	a.behind.Wait()
	signals.wait()
}

// answer is main for a command line that came through the door: exec, run or
// shell.
func (a *app) answer(ctx context.Context, args []string) int {
	root := a.one(args)
	if root == nil {
		return a.refuse(notThroughTheDoor(args))
	}
	return a.execute(ctx, root, args)
}

func calledDescriptor(c *server.Call, n int) (file, string) {
	f := c.Files[n]
	switch {
	case n <= 2:
		return nil, descriptorIsStream
	case f == nil:
		return nil, descriptorNotOpen
	}
	can := false
	_ = control(f, func(fd int) error {
		can = writable(fd)
		return nil
	})
	if !can {
		return nil, descriptorReadOnly
	}
	return f, ""
}

// callSignals are the signals that another process got.
type callSignals struct {
	done chan struct{}
	to   chan func(*dispatch)
}

// maxEarly bounds the signals that came before anybody asked for them.
const maxEarly = 8

// dispatch is who wants which signals, and what nobody wanted yet.
type dispatch struct {
	wants  map[chan<- os.Signal][]os.Signal
	before []os.Signal
}

func newCallSignals(from <-chan syscall.Signal) *callSignals {
	c := &callSignals{done: make(chan struct{}), to: make(chan func(*dispatch))}
	go c.run(from)
	return c
}

func (c *callSignals) run(from <-chan syscall.Signal) {
	defer close(c.done)
	d := &dispatch{wants: map[chan<- os.Signal][]os.Signal{}}
	for {
		select {
		case s, ok := <-from:
			if !ok {
				return
			}
			if !d.deliver(s) && len(d.before) < maxEarly {
				d.before = append(d.before, s)
			}
		case change := <-c.to:
			change(d)
		}
	}
}

// deliver says whether somebody wants the signal.
func (d *dispatch) deliver(s os.Signal) bool {
	wanted := false
	for to, sigs := range d.wants {
		for _, want := range sigs {
			if want != s {
				continue
			}
			wanted = true
			select {
			case to <- s:
			default:
			}
		}
	}
	return wanted
}

func (c *callSignals) change(f func(*dispatch)) {
	select {
	case c.to <- f:
	case <-c.done:
	}
}

// notify also delivers what came before anybody asked: a process that is told
// to stop while it starts must stop.
func (c *callSignals) notify(to chan<- os.Signal, sigs ...os.Signal) {
	c.change(func(d *dispatch) {
		d.wants[to] = sigs
		before := d.before
		d.before = nil
		for _, s := range before {
			if !d.deliver(s) {
				d.before = append(d.before, s)
			}
		}
	})
}

func (c *callSignals) stop(to chan<- os.Signal) {
	c.change(func(d *dispatch) { delete(d.wants, to) })
}

func (c *callSignals) wait() { <-c.done }
