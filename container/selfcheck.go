package container

import (
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
	c := checker{pid: b.pid}
	c.status(b.plan)
	c.namespaces()
	c.loopback(b)
	if b.plan.HasNetwork() {
		c.network()
	}
	if err := c.verdict(); err != nil || b.standby == nil || b.standby.PID == 0 {
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
	c := checker{pid: p.PID}
	c.descriptors()
	return c.verdict()
}

// checkRights is the part of Check that a standby can be asked ahead:
// capabilities, no_new_privs, filter, ids. It has no way to more of any, and is
// asked once.
func (p *Process) checkRights() error {
	if p.checked {
		return nil
	}
	c := checker{pid: p.PID}
	c.status(p.sandbox.plan)
	p.checked = true
	return c.verdict()
}

type checker struct {
	pid int
	net uint64 // the network namespace; 0 before namespaces
	bad []string
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
// that it makes: nothing that a cell's work does not need.
func (s *Seat) check() error {
	c := checker{pid: s.pid}
	c.capabilities()
	return c.verdict()
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
	b, err := kernfile.Read(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		c.differ("status cannot be read: %v", err)
		return
	}
	const none = "0000000000000000"
	want := map[string]string{
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		"NoNewPrivs":      "1",
		"Seccomp":         "2",
		"Threads":         "1",
		"Seccomp_filters": strconv.Itoa(ownFilters() + 1),
		"Uid":             strings.Repeat(strconv.Itoa(pl.Identity.HostUID)+"\t", 4),
		"Gid":             strings.Repeat(strconv.Itoa(pl.Identity.HostGID)+"\t", 4),
	}
	seen := 0
	for line := range strings.SplitSeq(string(b), "\n") {
		key, value, _ := strings.Cut(line, ":")
		w, ok := want[key]
		if !ok {
			continue
		}
		seen++
		if strings.TrimSpace(value) != strings.TrimSpace(w) {
			c.differ("%s is %q, want %q", key, strings.TrimSpace(value), strings.TrimSpace(w))
		}
	}
	// Seccomp_filters is there from Linux 5.9 on
	if seen < len(want)-1 {
		c.differ("status lacks %d of %d lines", len(want)-seen, len(want))
	}
}

// namespaces compares with our own: none may be shared.
func (c *checker) namespaces() {
	outside, err := ownInodes()
	if err != nil {
		c.differ("%v", err)
		return
	}
	for _, k := range namespaces.All {
		inside, err := namespaces.Inode(c.pid, k)
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

// loopback compares the network namespace, which namespaces has read, with the
// seat's: that of a sandbox without a way out is the one that was made for it,
// and of no other sandbox.
func (c *checker) loopback(b *Sandbox) {
	seats, err := namespaces.Inode(b.seat.pid, namespaces.Net)
	if err != nil {
		c.differ("%v", err)
	} else if same := c.net == seats; same == ownNetwork(b.plan) {
		c.differ("the network namespace is the seat's: %t, want %t", same, !same)
	}
}

// ownInodes are the namespaces of this process, which does not change them.
var ownInodes = sync.OnceValues(func() (map[namespaces.Kind]uint64, error) {
	own := map[namespaces.Kind]uint64{}
	for _, k := range namespaces.All {
		i, err := namespaces.OwnInode(k)
		if err != nil {
			return nil, err
		}
		own[k] = i
	}
	return own, nil
})

// descriptors allows 0 to 2, and 3, the socket, which execve closes.
func (c *checker) descriptors() {
	names, err := kernfile.List(fmt.Sprintf("/proc/%d/fd", c.pid))
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
	info, err := kernfile.Read(fmt.Sprintf("/proc/%d/fdinfo/%s", c.pid, fd))
	if err != nil {
		return false
	}
	const cloexec = 0o2000000 // O_CLOEXEC, as fdinfo shows it
	for line := range strings.SplitSeq(string(info), "\n") {
		if f, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(f), 8, 64)
			return err == nil && flags&cloexec != 0
		}
	}
	return false
}

// ownFilters is the number of seccomp filters that this process is under
// itself, and so everything it starts.
var ownFilters = sync.OnceValue(func() int {
	b, _ := kernfile.Read("/proc/self/status")
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return 0
})
