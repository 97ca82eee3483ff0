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

// calls is the bridge of one sandbox: what serves the tools of its programs.
type calls struct {
	broker *bridge.Broker
	files  *bridge.FileServer
	clock  *clock

	stop    context.CancelFunc // ends the socket
	sockets sync.WaitGroup
	socket  bool // there is one
}

// serve gives the sandbox tools. Nothing has run in it yet.
func (b *box) serve(t *Tools) (err error) {
	set, files, err := t.build()
	if err != nil {
		return err
	}
	w, err := b.runtime.bridgeWatcher()
	if err != nil {
		return err
	}
	root := b.sandbox.Bridge
	owner := b.owner()
	if err := writeModules(root, owner, files); err != nil {
		return fmt.Errorf("cannot write the tools' modules: %w", err)
	}
	h, err := bridgeHandles(root)
	if err != nil {
		return fmt.Errorf("cannot open the tool bridge: %w", err)
	}
	h.Workspace, h.Owner = b.sandbox.Workspace, owner
	c := &calls{clock: &b.clock}
	o := t.Options
	o.Hold = b.clock.hold
	o.Journal = b.record.journal(o.Journal)
	c.broker = bridge.NewBroker(set, o)
	if c.files, err = bridge.ServeFiles(w, h, c.broker); err != nil {
		c.broker.Close()
		return fmt.Errorf("cannot serve tools: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	if t.Socket != nil {
		if err := c.listen(ctx, t.Socket, root, bridge.NewFiles(b.sandbox.Workspace, owner), owner); err != nil {
			return errors.Join(err, c.close())
		}
	}
	b.calls = c
	return nil
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

func (c *calls) hasSocket() bool { return c != nil && c.socket }

// listen binds our own socket into the sandbox and serves on it.
func (c *calls) listen(ctx context.Context, serve SocketServer, root *os.File, files bridge.Files, owner workspace.Owner) error {
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
	c.socket = true
	c.sockets.Go(func() {
		defer l.Close()
		_ = serve(ctx, l, c.broker, files) // of its ends only ours is of interest
	})
	return nil
}

// summary is what is remembered of all calls; nil if there are no tools.
func (c *calls) summary() *Calls {
	if c == nil {
		return nil
	}
	s := c.broker.Summary()
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
	if c != nil {
		c.broker.Close()
	}
}

// close ends the service and proves that nothing of it is left. Idempotent.
func (c *calls) close() error {
	if c == nil {
		return nil
	}
	c.broker.Close()
	c.stop()
	err := c.files.Close()
	c.sockets.Wait()
	return err
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
