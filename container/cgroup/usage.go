package cgroup

import (
	"strconv"
	"strings"
	"time"
)

// Reset makes Usage count from now on.
func (l *Leaf) Reset() error {
	if dir, v2 := l.on(Memory); dir != "" {
		// Both files take a write as "forget the peak"; memory.peak does from
		// Linux 6.12 on and only for its descriptor, so a leaf of v2 is new
		// for each sandbox instead.
		if !v2 {
			if err := write(dir, "memory.max_usage_in_bytes", "0"); err != nil {
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
	if dir, v2 := l.on(Memory); dir != "" {
		peak, events, key := "memory.max_usage_in_bytes", "memory.oom_control", "oom_kill"
		if v2 {
			peak, events = "memory.peak", "memory.events"
		}
		// memory.peak is there from Linux 5.19 on
		u.MemoryPeak, _ = number(dir, peak)
		if u.OOMKills, err = keyed(dir, events, key); err != nil {
			return u, err
		}
	}
	if dir, _ := l.on(PIDs); dir != "" {
		if u.PIDsDenied, err = keyed(dir, "pids.events", "max"); err != nil {
			return u, err
		}
	}
	u.CPU -= l.base.CPU
	u.OOMKills -= l.base.OOMKills
	u.PIDsDenied -= l.base.PIDsDenied
	return u, nil
}

// CPUTime is the processor time since Reset.
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
		us, err := keyed(dir, "cpu.stat", "usage_usec")
		return time.Duration(us) * time.Microsecond, err
	}
	ns, err := number(dir, "cpuacct.usage")
	return time.Duration(ns), err
}

// OOMKills is the number of processes that the memory limit killed since Reset.
func (l *Leaf) OOMKills() (int64, error) {
	dir, v2 := l.on(Memory)
	if dir == "" {
		return 0, nil
	}
	events := "memory.oom_control"
	if v2 {
		events = "memory.events"
	}
	n, err := keyed(dir, events, "oom_kill")
	return n - l.base.OOMKills, err
}

func number(dir, file string) (int64, error) {
	s, err := read(dir, file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// keyed reads the line "key N" of a file.
func keyed(dir, file, key string) (int64, error) {
	s, err := read(dir, file)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(s, "\n") {
		if k, v, ok := strings.Cut(line, " "); ok && k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, nil
}
