package isolate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/internal/dirfd"
	"github.com/isolate-run/isolate/workspace"
)

// ToolHost serves the tools of a run where they are: in another process.
type ToolHost interface {
	// Serve begins to serve; no program runs yet. It says whether there is a
	// socket as well as files, see Tools.Socket.
	Serve(context.Context, Bridge) (Transports, error)
	// End ends the service and says what became of the calls. Nothing uses the
	// Bridge after it. It is called once, if Serve was.
	End() (Calls, error)
}

// Transports are the ways in which a program can call tools.
type Transports int

// The transports. OnlyFiles is how it is as a rule.
const (
	OnlyFiles Transports = iota
	FilesAndSocket
)

// ToolService serves a set of tools to the programs of one sandbox.
type ToolService struct {
	broker *bridge.Broker
	files  *bridge.FileServer

	stop       context.CancelFunc // ends the socket
	sockets    sync.WaitGroup
	transports Transports
}

// Serve gives a sandbox the tools. Nothing has run in it yet, and the watcher
// is open until after Close. What the bridge has of Hold, Journal and Context
// takes the place of Options'.
func (t *Tools) Serve(w *bridge.Watcher, b Bridge) (*ToolService, error) {
	set, files, err := t.build()
	if err != nil {
		return nil, err
	}
	if err := writeModules(b.Root, b.Owner, files); err != nil {
		return nil, fmt.Errorf("cannot write the tools' modules: %w", err)
	}
	h, err := bridgeHandles(b.Root)
	if err != nil {
		return nil, fmt.Errorf("cannot open the tool bridge: %w", err)
	}
	h.Workspace, h.Owner = b.Workspace, b.Owner
	o := t.Options
	o.Hold = b.Hold
	if b.Journal != nil {
		o.Journal = b.Journal
	}
	if b.Context != nil {
		o.Context = b.Context
	}
	s := &ToolService{broker: bridge.NewBroker(set, o)}
	if s.files, err = bridge.ServeFiles(w, h, s.broker); err != nil {
		s.broker.Close()
		return nil, fmt.Errorf("cannot serve tools: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if t.Socket != nil {
		if err := s.listen(ctx, t.Socket, b.Root, bridge.NewFiles(b.Workspace, b.Owner), b.Owner); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Transports are those that there are.
func (s *ToolService) Transports() Transports { return s.transports }

// Calls is what is remembered of all calls so far.
func (s *ToolService) Calls() Calls { return s.broker.Summary() }

// End ends the calls: what runs is cancelled, and no more are admitted.
func (s *ToolService) End() { s.broker.Close() }

// Close ends the service and proves that nothing of it is left. It is
// idempotent.
func (s *ToolService) Close() error {
	s.End()
	s.stop()
	err := s.files.Close()
	s.sockets.Wait()
	return err
}

// serve gives the sandbox tools of ours. Nothing has run in it yet.
func (b *box) serve(ctx context.Context, t *Tools) error {
	w, err := b.runtime.bridgeWatcher()
	if err != nil {
		return err
	}
	at := b.bridge()
	at.Journal, at.Context = b.record.journal(t.Options.Journal), b.record.placed(ctx)
	s, err := t.Serve(w, at)
	if err != nil {
		return err
	}
	b.calls = &calls{service: s, transports: s.Transports()}
	return nil
}

// serveBy lets another serve its tools to the sandbox.
func (b *box) serveBy(ctx context.Context, h ToolHost) error {
	at := b.bridge()
	at.Journal = b.record.journal(nil)
	b.record.calledElsewhere()
	c := &calls{host: h}
	b.calls = c // from here on it has an end
	var err error
	c.transports, err = h.Serve(ctx, at)
	return err
}

func (b *box) bridge() Bridge {
	return Bridge{Root: b.sandbox.Bridge, Workspace: b.sandbox.Workspace, Owner: b.owner(), Hold: b.clock.hold}
}

// owner is whose the files in the sandbox are: the zero value is ourselves.
func (b *box) owner() workspace.Owner {
	id := b.plan.Identity
	if id.HostUID == os.Geteuid() {
		return workspace.Owner{}
	}
	return workspace.Owner{UID: id.HostUID, GID: id.HostGID}
}

// bridgeHandles opens the parts of the bridge.
func bridgeHandles(root *os.File) (h bridge.Handles, err error) {
	p := container.BridgeParts
	for _, part := range []struct {
		rel string
		to  **os.File
	}{{p.Flat, &h.Flat}, {p.Req, &h.Req}, {p.Resp, &h.Resp}, {p.Claim, &h.Claim}} {
		if *part.to, err = dirfd.OpenBeneath(root, part.rel, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
			for _, f := range []*os.File{h.Flat, h.Req, h.Resp, h.Claim} {
				if f != nil {
					f.Close()
				}
			}
			return bridge.Handles{}, err
		}
	}
	return h, nil
}

// writeModules writes the generated files where the program can only read them.
func writeModules(root *os.File, owner workspace.Owner, files []stub.File) error {
	return owner.Do(func() error {
		made := map[string]bool{".": true}
		for _, f := range files {
			if err := makeDirs(root, path.Dir(f.Path), made); err != nil {
				return err
			}
			w, err := dirfd.CreateBeneath(root, path.Join(container.BridgeParts.SDK, f.Path), f.Mode)
			if err != nil {
				return err
			}
			_, err = w.Write(f.Content)
			if err = errors.Join(err, w.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeDirs makes a directory of the modules and its parents, once each.
func makeDirs(root *os.File, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := makeDirs(root, path.Dir(dir), made); err != nil {
		return err
	}
	d, err := dirfd.MkdirBeneath(root, path.Join(container.BridgeParts.SDK, dir), 0o755)
	if err != nil {
		return err
	}
	return d.Close()
}

// socketName is the socket's name in the directory of the modules, which the
// program cannot change.
const socketName = "mcp.sock"

// Where the program finds the socket.
const (
	socketVariable = "ISOLATE_MCP_SOCKET"
	socketPath     = bridge.Dir + "/" + bridge.SDKDir + "/" + socketName
)

// listen binds our own socket into the sandbox and serves on it.
func (s *ToolService) listen(ctx context.Context, serve SocketServer, root *os.File, files bridge.Files, owner workspace.Owner) error {
	sdk, err := dirfd.OpenBeneath(root, container.BridgeParts.SDK, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("cannot make the tools' socket: %w", err)
	}
	defer sdk.Close()
	name := path.Join("/proc/self/fd", strconv.Itoa(int(sdk.Fd())), socketName)
	var l *net.UnixListener
	err = owner.Do(func() (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot make the tools' socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // it ends with its file system
	s.transports = FilesAndSocket
	s.sockets.Go(func() {
		defer l.Close()
		_ = serve(ctx, l, s.broker, files) // of its ends only ours is of interest
	})
	return nil
}

// calls are those of the programs of one sandbox: of tools of ours, or of a host.
type calls struct {
	service    *ToolService // nil if host is set
	host       ToolHost
	transports Transports

	ending sync.Once // of host
	mu     sync.Mutex
	said   Calls // by host at its end
	err    error
}

func (c *calls) hasSocket() bool { return c != nil && c.transports == FilesAndSocket }

// summary is what is remembered of all calls; nil if there are no tools. Of a
// host's it is empty until their end.
func (c *calls) summary() *Calls {
	if c == nil {
		return nil
	}
	if c.service != nil {
		s := c.service.Calls()
		return &s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.said
	return &s
}

// since are the calls after an earlier summary.
func (c *calls) since(before *Calls) *Calls {
	now := c.summary()
	if now == nil || before == nil {
		return now
	}
	now.Accepted -= before.Accepted
	now.Done -= before.Done
	now.Failed -= before.Failed
	now.Refused -= before.Refused
	now.Unknown -= before.Unknown
	now.Ignored -= before.Ignored
	now.Omitted -= before.Omitted
	now.Calls = slices.Clone(now.Calls[min(len(before.Calls), len(now.Calls)):])
	return now
}

// end ends the calls: what runs is cancelled, and nothing is served any more.
func (c *calls) end() {
	switch {
	case c == nil:
	case c.service != nil:
		c.service.End()
	default:
		c.ending.Do(func() {
			said, err := c.host.End()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.said, c.err = said, err
		})
	}
}

// failure says why it is not known what became of the calls; nil if it is, or if
// nobody is left who would want to know.
func (c *calls) failure(ctx context.Context) error {
	if c == nil || errors.Is(context.Cause(ctx), ErrAbandoned) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// close ends the service and proves that nothing of it is left. Idempotent.
func (c *calls) close() error {
	c.end()
	if c == nil || c.service == nil {
		return nil
	}
	return c.service.Close()
}

// clock measures how long a person has been asked, during which the wall-clock
// limits of a sandbox stand still. The zero value is ready to use.
type clock struct {
	mu    sync.Mutex
	held  int           // questions that are open
	since time.Time     // when the first of them was asked
	total time.Duration // of those before
}

// hold stops the clock until release is called. It may be held several times.
func (c *clock) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 {
		c.since = time.Now()
	}
	c.held++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.held--; c.held == 0 {
			c.total += time.Since(c.since)
		}
	})
}

// stood is for how long the clock has stood still so far.
func (c *clock) stood() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held > 0 {
		return c.total + time.Since(c.since)
	}
	return c.total
}
