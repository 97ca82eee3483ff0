package container

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/internal/kernfile"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/plan"
)

// The network of sandboxes that have no way out: a network namespace with lo
// and no route. It is the seat's, so that sandboxes in a row may have the same
// one as long as none has left a mark in it (docs/adr/0015). A sandbox has no
// power over it: it belongs to the cell's user namespace. A cell's first seat
// has the one that the cell was made with, in which nothing else ever is.

// network is what is known of the network namespace that a seat is in.
type network struct {
	inode uint64 // see namespaces.Kind
	// clean is whether it is the seat's own and no program can have marked it.
	clean bool
	// sockets and devices tell what is left in it; nil until asked.
	sockets, devices *kernfile.File
}

// close lets go of the namespace.
func (n *network) close() {
	n.sockets.Close()
	n.devices.Close()
	*n = network{}
}

// ownNetwork tells whether a plan's sandboxes make a network namespace
// themselves. A seat that is a fork of a template cannot make one: it has no
// capability that would let it.
func ownNetwork(p plan.Plan) bool { return p.HasNetwork() || p.Preload != nil }

// cloneFlags are the namespaces that a sandbox's init is born into.
func cloneFlags(p plan.Plan) uint64 {
	if ownNetwork(p) {
		return namespaces.SandboxFlags
	}
	return namespaces.SandboxFlags &^ unix.CLONE_NEWNET
}

// loopbackTape gives the seat a new network namespace. The old one, if nobody
// else is in it, ends behind this.
func loopbackTape() (keeper.Tape, error) {
	b := keeper.NewBuilder(0)
	b.Call("make a network namespace", unix.SYS_UNSHARE, keeper.Int(unix.CLONE_NEWNET))
	loopbackUp(b)
	return b.Encode(keeper.MsgTape, 0)
}

// loopbackUp sets IFF_UP on lo, which brings 127.0.0.1 and ::1.
func loopbackUp(b *keeper.Builder) {
	var ifreq [40]byte
	copy(ifreq[:], "lo")
	ifreq[16] = unix.IFF_UP
	s := b.CallReg("open a socket for lo", unix.SYS_SOCKET, keeper.Int(unix.AF_INET), keeper.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), null)
	b.Call("bring lo up", unix.SYS_IOCTL, keeper.R(s), keeper.Int(unix.SIOCSIFFLAGS), keeper.Data(ifreq[:]))
	b.Call("close the socket for lo", unix.SYS_CLOSE, keeper.R(s))
}

// cleanNetwork makes sure that no program has been in the seat's network
// namespace, or none that left a mark.
func (s *Seat) cleanNetwork() error {
	if s.net.clean {
		return nil
	}
	tape, err := loopbackTape()
	if err != nil {
		return err
	}
	s.net.close()
	r, err := converse(s.sock, "seat", tape, tape.Message)
	if err != nil {
		return err
	}
	r.close()
	if err := examine(s.pid, s.isIn); err != nil {
		return err
	}
	return s.hasNetwork()
}

// hasNetwork notes that the seat has a network namespace as it was made. It
// compares: with this one each sandbox's is compared.
func (s *Seat) hasNetwork() error {
	same, err := namespaces.SameNet(s.pid, os.Getpid())
	if err != nil {
		return err
	}
	if same {
		return bug("the seat's network namespace is the host's")
	}
	s.net.clean = true
	return nil
}

// isIn notes which network namespace the seat is in.
func (s *Seat) isIn(c *checker) {
	var err error
	if s.net.inode, err = c.namespace(namespaces.Net); err != nil {
		c.differ("%v", err)
	}
}

// KeepNetwork lets the seat's next sandbox have the network namespace of this
// one, which is closed and whose programs, says the caller, never had an IPv4 or
// IPv6 socket. What they may have left all the same is looked for: sockets of
// AF_UNIX can outlive their owners, in flight to each other. Without this call
// the next sandbox gets a new namespace, and so it does if anything is found or
// cannot be read.
func (b *Sandbox) KeepNetwork() {
	if !ownNetwork(b.plan) { // else it had another one than its seat
		n := &b.seat.net
		n.clean = n.unmarked(b.seat.pid) == nil
	}
}

// unmarked tells what is left in the network namespace of a seat; nil if it is as
// it was made.
func (n *network) unmarked(seat int) error {
	if err := n.open(seat); err != nil {
		return fmt.Errorf("cannot look at what is left in the network: %w", err)
	}
	var buf [4096]byte // a page: the kernel gives as many lines at once
	sockets, err := n.sockets.Read(buf[:])
	if err != nil {
		return fmt.Errorf("cannot look for sockets: %w", err)
	}
	if !bytes.HasPrefix(sockets, []byte("sockets: used 0\n")) {
		return fmt.Errorf("sockets are left")
	}
	devices, err := n.devices.Read(buf[:])
	if err != nil {
		return fmt.Errorf("cannot look at the network devices: %w", err)
	}
	return silent(string(devices))
}

// open opens what tells what is left, if it is not open. The files are those of
// the namespace that the seat is in now, and it stays while they are open.
func (n *network) open(seat int) (err error) {
	if n.sockets != nil {
		return nil
	}
	dir := "/proc/" + strconv.Itoa(seat) + "/net/"
	if n.sockets, err = kernfile.Open(dir+"sockstat", unix.O_RDONLY); err != nil {
		return err
	}
	if n.devices, err = kernfile.Open(dir+"dev", unix.O_RDONLY); err != nil {
		n.sockets.Close()
		n.sockets = nil
	}
	return err
}

// silent tells why /proc/net/dev is not that of a namespace with lo alone that
// has carried nothing; nil if it is.
func silent(devices string) error {
	lines := strings.Split(strings.TrimSuffix(devices, "\n"), "\n")
	if len(lines) != 3 { // two of headings
		return fmt.Errorf("there are %d network devices", len(lines)-2)
	}
	counts, ok := strings.CutPrefix(strings.TrimSpace(lines[2]), "lo:")
	if !ok {
		return fmt.Errorf("there is a network device that is not lo")
	}
	for _, n := range strings.Fields(counts) {
		if n != "0" {
			return fmt.Errorf("lo has carried something")
		}
	}
	return nil
}
