package netd

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/egress/control"
)

// Outcome says whether Init was the process's whole task.
type Outcome int

// The outcomes.
const (
	// NotOurs means that the process is something else.
	NotOurs Outcome = iota
	// Done means that the network has ended well, Failed that it has not: the
	// process is to exit.
	Done
	Failed
)

// Init is the door: in a process that a supervisor started to hold a network it
// does so, and returns when the network has ended. It belongs first in main.
func Init() Outcome {
	if len(os.Args) != 1 || os.Args[0] != control.Name {
		return NotOurs
	}
	err := closeInherited()
	if err == nil {
		err = Run(control.SocketFD, control.DeviceFD)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return Failed
	}
	return Done
}

// closeInherited closes what the supervisor's caller let it inherit: a lock, a
// pipe, a file that nobody meant for this process. They are the only descriptors
// without close-on-exec; the run-time's own have it.
func closeInherited() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list descriptors: %w", err)
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= control.DeviceFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// memoryLimit is what the garbage collector aims to stay below, in bytes.
const memoryLimit = 256 << 20

// endTimeout bounds how long flows and stack may take to end when there is no
// supervisor any more; on a busy machine a thousand flows take a second.
const endTimeout = 30 * time.Second

// Run holds a network until the supervisor closes its socket. Both arguments are
// descriptors, which it takes over.
func Run(socket, device int) error {
	debug.SetMemoryLimit(memoryLimit)
	runtime.GOMAXPROCS(1)
	supervisor := &line{fd: socket}
	peer := control.NewPeer(supervisor)
	c, err := peer.Config()
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	n, ready, err := start(c, device, peer)
	if err == nil {
		err = supervisor.attend(n.loop)
	}
	if err != nil {
		peer.Fail(err)
		return err
	}
	if err := peer.Ready(ready); err != nil {
		return err
	}
	err = peer.Serve(func(b control.Begin) error { return n.Set(b.Policy, b.Number, b.Granted) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.finish()
		peer.Flush()
		supervisor.end() // the supervisor waits for the last event, not for the rest
		n.Close()
	}()
	select {
	case <-ended:
	case <-time.After(endTimeout):
		// the process ends all the same: none may outlive its supervisor
		return fmt.Errorf("cannot take the network down: it goes on after %v", endTimeout)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func start(c control.Config, device int, sink Sink) (*Network, control.Ready, error) {
	var ready control.Ready
	o := Options{Sink: sink, Floor: c.Floor, Secrets: c.Secrets, IPv6: c.IPv6Inside,
		Upstream: &system{resolvers: c.Resolvers, hosts: c.Hosts, ipv6: c.IPv6}}
	var err error
	if c.Intercept {
		if o.Authority, err = NewAuthority(); err != nil {
			return nil, ready, err
		}
		ready.CA = o.Authority.PEM()
		o.Roots = x509.NewCertPool()
		o.Roots.AppendCertsFromPEM(bytes.Clone(c.Roots))
	}
	if o.Link, err = Device(device); err != nil {
		return nil, ready, err
	}
	n, err := New(o)
	if err != nil {
		return nil, ready, err
	}
	if ready.Confined, err = confine(); err != nil {
		n.Close()
		return nil, ready, err
	}
	mourn(device, c.Mourn)
	return n, ready, nil
}
