package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/kernfile"
)

// peakV1 is the most memory that was used, which can be forgotten.
const peakV1 = "memory.max_usage_in_bytes"

// Reset makes Usage count from now on.
func (l *Leaf) Reset() error {
	if dir, v2 := l.on(Memory); dir != "" {
		// Both files take a write as "forget the peak"; memory.peak does from
		// Linux 6.12 on and only for its descriptor, so a leaf of v2 is new
		// for each sandbox instead.
		if !v2 {
			if err := l.forget(dir, peakV1); err != nil {
				return err
			}
		}
	}
	l.base = Usage{}
	u, err := l.Usage()
	if err != nil {
		return err
	}
	l.base = Usage{CPU: u.CPU, OOMKills: u.OOMKills, PIDsDenied: u.PIDsDenied}
	return nil
}

// Usage reads the counters. What has no controller is 0.
func (l *Leaf) Usage() (Usage, error) {
	var u Usage
	var err error
	if u.CPU, err = l.cpu(); err != nil {
		return u, err
	}
	if u.OOMKills, err = l.oomKills(); err != nil {
		return u, err
	}
	if dir, v2 := l.on(Memory); dir != "" {
		peak := peakV1
		if v2 {
			peak = "memory.peak"
		}
		// memory.peak is there from Linux 5.19 on
		u.MemoryPeak, _ = l.number(dir, peak)
	}
	if dir, _ := l.on(PIDs); dir != "" {
		if u.PIDsDenied, err = l.keyed(dir, "pids.events", "max"); err != nil {
			return u, err
		}
	}
	u.CPU -= l.base.CPU
	u.OOMKills -= l.base.OOMKills
	u.PIDsDenied -= l.base.PIDsDenied
	return u, nil
}

// ResetCPU makes Usage and CPUTime count processor time from now on.
func (l *Leaf) ResetCPU() error {
	used, err := l.cpu()
	if err == nil {
		l.base.CPU = used
	}
	return err
}

// CPUTime is the processor time since Reset or ResetCPU.
func (l *Leaf) CPUTime() (time.Duration, error) {
	d, err := l.cpu()
	return d - l.base.CPU, err
}

func (l *Leaf) cpu() (time.Duration, error) {
	dir, v2 := l.on(CPUAcct)
	if dir == "" {
		return 0, nil
	}
	if v2 {
		us, err := l.keyed(dir, "cpu.stat", "usage_usec")
		return time.Duration(us) * time.Microsecond, err
	}
	ns, err := l.number(dir, "cpuacct.usage")
	return time.Duration(ns), err
}

// OOMKills is the number of processes that the memory limit killed since Reset.
func (l *Leaf) OOMKills() (int64, error) {
	n, err := l.oomKills()
	return n - l.base.OOMKills, err
}

func (l *Leaf) oomKills() (int64, error) {
	dir, v2 := l.on(Memory)
	if dir == "" {
		return 0, nil
	}
	events := "memory.oom_control"
	if v2 {
		events = "memory.events"
	}
	return l.keyed(dir, events, "oom_kill")
}

func (l *Leaf) number(dir, file string) (int64, error) {
	s, err := l.read(dir, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// keyed reads the line "key N" of a file; a key that is not there is 0.
func (l *Leaf) keyed(dir, file, key string) (int64, error) {
	s, err := l.read(dir, file)
	if err != nil {
		return 0, err
	}
	for len(s) > 0 {
		var line string
		line, s, _ = strings.Cut(s, "\n")
		if v, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}

// read reads a counter through a descriptor that is kept: a leaf's counters
// are read at the start and the end of each sandbox and in between.
func (l *Leaf) read(dir, file string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.counter(dir, file)
	if err != nil {
		return "", err
	}
	var buf [4096]byte // memory.events and cpu.stat have some hundred bytes
	b, err := f.Read(buf[:])
	return strings.TrimSpace(string(b)), err
}

// forget writes 0 to a counter, which begins anew with that.
func (l *Leaf) forget(dir, file string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.counter(dir, file)
	if err != nil {
		return err
	}
	return f.Write("0")
}

// counter opens a counter, if it is not open; the caller holds the lock.
func (l *Leaf) counter(dir, file string) (*kernfile.File, error) {
	if f := l.open[file]; f != nil {
		return f, nil
	}
	mode := unix.O_RDONLY
	if file == peakV1 {
		mode = unix.O_RDWR
	}
	f, err := kernfile.Open(filepath.Join(dir, file), mode)
	if err != nil {
		return nil, err
	}
	if l.open == nil {
		l.open = map[string]*kernfile.File{}
	}
	l.open[file] = f
	return f, nil
}

func (l *Leaf) closeCounters() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.open {
		f.Close()
	}
	l.open = nil
}
