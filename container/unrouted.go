package container

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Unrouted counts what a sandbox's network namespace turned away because there
// is no route to it. What the seccomp filter reports never gets so far: these
// are the destinations that only memory names (sendmsg), and those that a
// program exchanged while it was being looked at.
type Unrouted struct{ v4, v6 *os.File }

// CountUnrouted opens the counters, which outlive the sandbox's processes.
func (b *Sandbox) CountUnrouted() (*Unrouted, error) {
	u := &Unrouted{}
	var err error
	if u.v4, err = os.Open(fmt.Sprintf("/proc/%d/net/snmp", b.pid)); err != nil {
		return nil, fmt.Errorf("cannot open the network's counters: %w", err)
	}
	u.v6, err = os.Open(fmt.Sprintf("/proc/%d/net/snmp6", b.pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
		u.v4.Close()
		return nil, fmt.Errorf("cannot open the network's counters: %w", err)
	}
	return u, nil
}

// Count is how many there were since the sandbox was made.
func (u *Unrouted) Count() (int64, error) {
	b, err := readAll(u.v4)
	if err != nil {
		return 0, fmt.Errorf("cannot read the network's counters: %w", err)
	}
	n, err := noRoutes4(b)
	if err != nil || u.v6 == nil {
		return n, err
	}
	if b, err = readAll(u.v6); err != nil {
		return 0, fmt.Errorf("cannot read the network's counters: %w", err)
	}
	m, err := noRoutes6(b)
	return n + m, err
}

// readAll reads a file of proc from its start: it is written anew for that.
func readAll(f *os.File) ([]byte, error) {
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err := b.ReadFrom(f)
	return b.Bytes(), err
}

var errNoCounter = errors.New("cannot read the network's counters: they have no OutNoRoutes")

// noRoutes4 reads /proc/net/snmp: a line of names, and one of numbers.
func noRoutes4(b []byte) (int64, error) {
	var names [][]byte
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 0 || string(f[0]) != "Ip:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, name := range names[:min(len(names), len(f))] {
			if string(name) == "OutNoRoutes" {
				return strconv.ParseInt(string(f[i]), 10, 64)
			}
		}
	}
	return 0, errNoCounter
}

// noRoutes6 reads /proc/net/snmp6: a name and a number a line.
func noRoutes6(b []byte) (int64, error) {
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "Ip6OutNoRoutes" {
			return strconv.ParseInt(string(f[1]), 10, 64)
		}
	}
	return 0, errNoCounter
}

// Close lets go of the counters, and with them of the network namespace.
func (u *Unrouted) Close() {
	u.v4.Close()
	if u.v6 != nil {
		u.v6.Close()
	}
}
