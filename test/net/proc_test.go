package net

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// children are the processes whose parent is pid, in any thread's name.
func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, n)
		}
	}
	return out, nil
}

func args(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Trim(strings.ReplaceAll(string(b), "\x00", " "), " ")
}

// The process is confined as it says, seen from outside.
func TestNetworkProcessIsConfined(t *testing.T) {
	r := open(t)
	sb, err := r.Sandbox(t.Context(), allow(t, "allow:allowed.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	pid := helperPID(t)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in its status", want)
		}
	}
	if os.Geteuid() != 0 && !strings.Contains(string(b), "CapEff:\t0000000000000000") {
		t.Error("it has capabilities")
	}
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil {
		for _, e := range entries {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, e.Name()))
			if !strings.Contains(string(b), "Seccomp:\t2") {
				t.Errorf("thread %s is under no filter", e.Name())
			}
		}
	}
}

// What the caller's process inherited itself stays its own: a lock or a pipe
// that the network process held would outlive who took it. Beside A13.
func TestNetworkProcessInheritsNothing(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], 0); err != nil { // without close-on-exec
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(ends[0]), "pipe")
	defer read.Close()
	r := open(t)
	sb, err := r.Sandbox(t.Context(), allow(t, "allow:allowed.example"))
	unix.Close(ends[1])
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	fds := []unix.PollFd{{Fd: int32(ends[0]), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 10_000); n != 1 || fds[0].Revents&unix.POLLHUP == 0 {
		t.Errorf("somebody holds the caller's pipe: %d, %v, %+v", n, err, fds)
	}
}
