package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/loan"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/tracecontext"
	"github.com/isolate-run/isolate/plan"
)

// A run with tools is carried out by a server like any other, but the tools
// belong to who asked for it: their programs, their environment, the terminal at
// which a person is asked. So the command keeps them, hands its line over, and
// serves the bridge of the sandbox that the server lends it. docs/adr/0012-lent-bridge.md says why.

// patience is how many signals that ask to stop a stuck server is worth.
const patience = 3

// toolsElsewhere carries a run with tools out through the server of this user,
// and says whether it did. If it did not, s keeps the tools that were opened.
func (a *app) toolsElsewhere(ctx context.Context, r *reader, s *toolset) bool {
	if !s.given || len(r.problems) > 0 || a.environ == nil || r.flags.given("no-server", "explain") != "" {
		return false
	}
	socket := a.serverSocket()
	if conn, err := client.Reach(socket); err != nil {
		return false
	} else {
		conn.Close() // a server does not wait for tools to be opened
	}
	r.readMeta() // before anything is started that could inherit the descriptor
	if len(r.problems) > 0 {
		return false
	}
	i := a.watchSignals(ctx, programStops...)
	defer i.stop()
	o, problems := a.openTools(i.ctx, *s)
	s.opened = &attempt{o, problems}
	if i.signal() != 0 {
		_ = o.close()
		a.conclude(r.request, a.withoutResult(i, i.ctx.Err()))
		return true
	}
	if len(problems) > 0 {
		return false
	}
	code, err := a.handOver(ctx, socket, r, o)
	switch {
	case errors.Is(err, client.ErrDied):
		code = a.refuse(serverDied())
	case err != nil && !errors.Is(err, client.ErrStuck):
		return false
	}
	_ = o.close() // as after a run of ours: what matters was told
	a.code = code
	return true
}

// attempt is what came of opening tools.
type attempt struct {
	opened
	problems []plan.Problem
}

// seen are the variables that a command looks at, beside those of --env-from;
// package ahead passes the same.
var seen = []string{"TERM", "XDG_RUNTIME_DIR", "HOME", "SSH_AUTH_SOCK", traceParent, traceState}

// handOver passes this command to the server and serves its tools until it ends.
func (a *app) handOver(ctx context.Context, socket string, r *reader, o opened) (code int, err error) {
	call, err := a.doorCall(r)
	if err != nil {
		return 0, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer theirs.Close()
	call.Files = append(call.Files, client.DoorFile{Name: client.DoorTools, FD: int(theirs.Fd())})
	conn, err := client.Reach(socket)
	if err != nil {
		ours.Close()
		return 0, err
	}
	defer conn.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		lendTools(ctx, ours, o)
	}()
	signals := make(chan os.Signal, 8)
	from := a.source()
	from.notify(signals, append(slices.Clip(programStops), syscall.SIGCONT)...)
	defer from.stop(signals)
	code, err = call.Do(conn, signals, patience)
	ours.Close()
	<-served
	return code, err
}

// doorCall is this command without its tools.
func (a *app) doorCall(r *reader) (client.DoorCall, error) {
	call := client.DoorCall{Args: a.line, Dir: a.dir}
	for i, stream := range []any{a.stdin, a.stdout, a.stderr} {
		f, is := stream.(*os.File)
		if !is || a.dirErr != nil {
			return call, client.ErrCold
		}
		call.Files = append(call.Files, client.DoorFile{Name: strconv.Itoa(i), FD: int(f.Fd())})
	}
	if n, is := r.request.meta.fd.(lateFile); is {
		call.Files = append(call.Files, client.DoorFile{Name: strconv.Itoa(int(n)), FD: int(n)})
	}
	for _, name := range append(r.flags.many("env-from"), seen...) {
		if v, set := a.getenv(name); set {
			call.Env = append(call.Env, name+"="+v)
		}
	}
	return call, nil
}

// socketPair is a connection of which one end is to be passed.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine := os.NewFile(uintptr(fds[0]), "tools")
	defer mine.Close()
	theirs = os.NewFile(uintptr(fds[1]), "tools")
	conn, err := net.FileConn(mine)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// carry gives calls the place in a trace that ctx has.
func carry(ctx context.Context) func(context.Context, bridge.Record) context.Context {
	at := tracecontext.Of(ctx)
	return func(call context.Context, _ bridge.Record) context.Context { return tracecontext.With(call, at) }
}

// lendTools serves the tools to the sandbox whose bridge comes over conn, until
// the run is over. What goes wrong is said to the other side, which has to say
// it to the user. Calls have the place in a trace that ctx has.
func lendTools(ctx context.Context, conn *net.UnixConn, o opened) {
	b, err := loan.Borrow(conn)
	if err != nil {
		return // the server had no sandbox to lend
	}
	defer b.Close()
	w, err := bridge.NewWatcher()
	if err != nil {
		_ = b.Failed(err)
		return
	}
	defer w.Close()
	about := lentTools{Notice: o.unasked()}
	if about.Signatures, err = signaturesOf(o.list); err != nil {
		_ = b.Failed(err)
		return
	}
	o.tools.Options.Approver = whileQuiet(o.tools.Options.Approver, func() (func(), error) { return b.Hold(loan.Terminal) })
	hold := func() func() {
		release, err := b.Hold(loan.Clock)
		if err != nil {
			return func() {} // the run is over
		}
		return release
	}
	s, err := o.tools.Serve(w, isolate.Bridge{
		Root: b.Root, Workspace: b.Workspace, Owner: b.Owner,
		Hold: hold, Journal: b.Journal(), Context: carry(ctx),
	})
	if err != nil {
		_ = b.Failed(err)
		return
	}
	ready := loan.Ready{Socket: s.Transports() == isolate.FilesAndSocket}
	if ready.About, err = json.Marshal(about); err == nil {
		err = b.Serving(ready)
	}
	if err == nil {
		b.Wait()
	}
	if err = errors.Join(err, s.Close()); err == nil {
		_ = b.Return(s.Calls())
	}
}

// lentTools is what the side of the sandbox is told of the tools: how a program
// calls them, and what is to be printed before it starts; empty is nothing.
type lentTools struct {
	Signatures []stub.Signature
	Notice     string
}

// toolHost is the other side in a server: who asked for the run has the tools.
type toolHost struct {
	loan.Lender
	about  lentTools
	notice func(string)
}

var _ isolate.ToolHost = (*toolHost)(nil)

func (h *toolHost) Serve(ctx context.Context, b isolate.Bridge) (isolate.Transports, error) {
	ready, err := h.Lend(ctx, b)
	if err == nil {
		err = json.Unmarshal(ready.About, &h.about)
	}
	if err != nil {
		return isolate.OnlyFiles, err
	}
	if h.about.Notice != "" {
		h.notice(h.about.Notice)
	}
	if ready.Socket {
		return isolate.FilesAndSocket, nil
	}
	return isolate.OnlyFiles, nil
}
