package container

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/syndtr/gocapability/capability"

	"github.com/isolate-run/isolate/internal/kernfile"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/plan"
)

// ErrNotIsolated is a self-check that found a difference between what the plan
// says and what the kernel says. The program was not started.
type ErrNotIsolated struct{ Differences []string }

func (e *ErrNotIsolated) Error() string {
	return "cannot start program: the sandbox is not what was planned: " + strings.Join(e.Differences, "; ")
}

// check asks the kernel, from outside, about the init of a new sandbox:
// everything a program inherits. It compares with the plan and with ourselves.
func (b *Sandbox) check() error {
	err := examine(b.pid, func(c *checker) {
		c.status(b.plan)
		c.namespaces()
		c.loopback(b)
		if b.plan.HasNetwork() {
			c.network()
		}
	})
	if err != nil || b.standby == nil || b.standby.PID == 0 {
		return err
	}
	return b.standby.checkRights()
}

// Check asks the kernel, from outside, about a process that has done
// everything but execve: capabilities, no_new_privs, filter, ids, descriptors.
// Its namespaces are its init's, which check has seen.
func (p *Process) Check() error {
	if err := p.checkRights(); err != nil {
		return err
	}
	return examine(p.PID, (*checker).descriptors)
}

// checkRights is the part of Check that a standby can be asked ahead:
// capabilities, no_new_privs, filter, ids. It has no way to more of any, and is
// asked once.
func (p *Process) checkRights() error {
	if p.checked {
		return nil
	}
	p.checked = true
	return examine(p.PID, func(c *checker) { c.status(p.sandbox.plan) })
}

// checker is what is asked about one process, and what was found to differ.
type checker struct {
	pid int
	dir kernfile.Dir // /proc/PID
	buf [2048]byte   // for one file at a time; a status has 1.5 KiB
	net uint64       // the network namespace; 0 before namespaces
	bad []string
}

// examine asks the kernel about a process, and says what differs.
func examine(pid int, ask func(*checker)) error {
	c := checker{pid: pid}
	var err error
	if c.dir, err = kernfile.OpenDir("/proc/" + strconv.Itoa(pid)); err != nil {
		c.differ("process cannot be looked at: %v", err)
		return c.verdict()
	}
	defer c.dir.Close()
	ask(&c)
	return c.verdict()
}

func (c *checker) verdict() error {
	if len(c.bad) > 0 {
		return &ErrNotIsolated{Differences: c.bad}
	}
	return nil
}

func (c *checker) differ(format string, args ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, args...))
}

// check asks the kernel, from outside, what the seat may do to the sandboxes
// that it makes: nothing that a cell's work does not need. It notes the network
// namespace, with which theirs are compared.
func (s *Seat) check() error {
	return examine(s.pid, func(c *checker) {
		c.capabilities()
		s.isIn(c)
	})
}

// capabilities reads the five sets and allows those of a cell.
func (c *checker) capabilities() {
	caps, err := capability.NewPid2(c.pid)
	if err == nil {
		err = caps.Load()
	}
	if err != nil {
		c.differ("capabilities cannot be read: %v", err)
		return
	}
	for _, n := range capability.List() {
		for _, set := range []capability.CapType{capability.EFFECTIVE, capability.PERMITTED, capability.BOUNDING} {
			if caps.Get(set, n) && !slices.Contains(cellCapabilities, int(n)) {
				c.differ("%s is in the %s set", n, set)
			}
		}
	}
	for _, set := range []capability.CapType{capability.INHERITABLE, capability.AMBIENT} {
		if !caps.Empty(set) {
			c.differ("%s capabilities are not empty: %s", set, caps.StringCap(set))
		}
	}
}

// status reads the lines of /proc/PID/status that the kernel writes about the
// process's protection.
func (c *checker) status(pl plan.Plan) {
	b, err := c.dir.Read("status", c.buf[:])
	if err != nil {
		c.differ("status cannot be read: %v", err)
		return
	}
	const none = "0000000000000000"
	uid, gid := strconv.Itoa(pl.Identity.HostUID), strconv.Itoa(pl.Identity.HostGID)
	for _, want := range [...]struct{ key, value string }{
		{"Uid", uid + "\t" + uid + "\t" + uid + "\t" + uid},
		{"Gid", gid + "\t" + gid + "\t" + gid + "\t" + gid},
		{"Threads", "1"},
		{"CapInh", none}, {"CapPrm", none}, {"CapEff", none}, {"CapBnd", none}, {"CapAmb", none},
		{"NoNewPrivs", "1"},
		{"Seccomp", "2"},
		{"Seccomp_filters", strconv.Itoa(ownFilters() + 1)},
	} {
		have, ok := line(b, want.key)
		if !ok && want.key == "Seccomp_filters" {
			continue // there from Linux 5.9 on
		}
		if !ok {
			c.differ("status has no line %s", want.key)
		} else if string(have) != want.value {
			c.differ("%s is %q, want %q", want.key, have, want.value)
		}
	}
}

// line is what a file of proc that has "KEY:\tVALUE" in its lines, but not the
// first, says of a key. What a process calls itself cannot be taken for a line:
// the kernel writes a line feed there as "\n".
func line(file []byte, key string) (value []byte, ok bool) {
	_, rest, ok := bytes.Cut(file, []byte("\n"+key+":"))
	value, _, _ = bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(value), ok
}

// namespaces compares with our own: none may be shared.
func (c *checker) namespaces() {
	outside, err := ownInodes()
	if err != nil {
		c.differ("%v", err)
		return
	}
	for _, k := range namespaces.All {
		inside, err := c.namespace(k)
		if err != nil {
			c.differ("%v", err)
		} else if inside == outside[k] {
			c.differ("the %s namespace is the host's", k)
		}
		if k == namespaces.Net {
			c.net = inside
		}
	}
}

func (c *checker) namespace(k namespaces.Kind) (uint64, error) {
	link, err := c.dir.Link("ns/" + string(k))
	if err != nil {
		return 0, fmt.Errorf("cannot look at the %s namespace: %w", k, err)
	}
	return k.Inode(link)
}

// loopback compares the network namespace, which namespaces has read, with the
// seat's: that of a sandbox without a way out is the one that was made for it,
// and of no other sandbox.
func (c *checker) loopback(b *Sandbox) {
	if same := c.net == b.seat.net.inode; same == ownNetwork(b.plan) {
		c.differ("the network namespace is the seat's: %t, want %t", same, !same)
	}
}

// ownInodes are the namespaces of this process, which does not change them.
var ownInodes = sync.OnceValues(func() (map[namespaces.Kind]uint64, error) {
	own := map[namespaces.Kind]uint64{}
	for _, k := range namespaces.All {
		i, err := k.OwnInode()
		if err != nil {
			return nil, err
		}
		own[k] = i
	}
	return own, nil
})

// descriptors allows 0 to 2, and 3, the socket, which execve closes.
func (c *checker) descriptors() {
	names, err := c.dir.List("fd")
	if err != nil {
		c.differ("descriptors cannot be listed: %v", err)
		return
	}
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err == nil && n <= 2 {
			continue
		}
		if n != 3 {
			c.differ("descriptor %s is open", name)
		} else if !c.closedByExec(name) {
			c.differ("descriptor %s would survive execve", name)
		}
	}
}

// closedByExec reads the close-on-exec flag of a descriptor.
func (c *checker) closedByExec(fd string) bool {
	info, err := c.dir.Read("fdinfo/"+fd, c.buf[:])
	if err != nil {
		return false
	}
	const cloexec = 0o2000000 // O_CLOEXEC, as fdinfo shows it
	f, _ := line(info, "flags")
	flags, err := strconv.ParseUint(string(f), 8, 64)
	return err == nil && flags&cloexec != 0
}

// ownFilters is the number of seccomp filters that this process is under
// itself, and so everything it starts.
var ownFilters = sync.OnceValue(func() int {
	b, _ := kernfile.Read("/proc/self/status")
	v, _ := line(b, "Seccomp_filters")
	n, _ := strconv.Atoi(string(v))
	return n
})
