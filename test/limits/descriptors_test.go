package limits_test

import (
	"io"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// B41: what a process may open ends at the policy's Files with EMFILE, and
// nests of epoll at the kernel's depth.
func TestLimitsDescriptors(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, tt := range []struct {
		way  string
		says string
	}{
		// 0 to 2 are open, and the pair that does not fit makes no half
		{"files", "197 EMFILE"},
		{"pipes", "196 EMFILE"},
		{"sockets", "197 EMFILE"},
		{"epolls", "5 ELOOP"},
	} {
		t.Run(tt.way, func(t *testing.T) {
			res := l.exhaust(t, isolate.Policy{Files: 200}, hostile(t, "descriptors.py", tt.way))
			says(t, res, tt.says)
		})
	}
}

// B41: objects of which each user has a number end inside at a number of the
// sandbox's own, and the user outside still gets them meanwhile.
func TestPerUserObjects(t *testing.T) {
	l := newLab(t, isolate.Options{})
	for _, tt := range []struct {
		way  string
		says string
	}{
		{"instances", "16 EMFILE"},
		{"watches", "4096 ENOSPC"},
		{"timers", "1024 EAGAIN"},
		{"signals", "1024 EAGAIN"},
	} {
		t.Run(tt.way, func(t *testing.T) {
			res := l.exhaust(t, isolate.Policy{}, hostile(t, "objects.c", tt.way))
			says(t, res, tt.says)
		})
	}
}

// exhaust runs a program that takes all it can get and then waits; meanwhile
// the host tries to get the same.
func (l *lab) exhaust(t *testing.T, p isolate.Policy, c isolate.Cmd) isolate.Result {
	t.Helper()
	input, held := io.Pipe()
	full := make(chan struct{})
	var said strings.Builder
	c.Stdin = input
	c.Stdout = writerFunc(func(b []byte) (int, error) {
		if said.Len() == 0 {
			close(full)
		}
		return said.Write(b)
	})
	done := make(chan struct{})
	var res isolate.Result
	var err error
	go func() {
		defer close(done)
		res, err = l.tryRun(p, c)
	}()
	select {
	case <-full:
		hostGetsItsOwn(t)
	case <-done:
	}
	held.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	ended(t, res, isolate.ReasonExit)
	res.Stdout.Kept = []byte(said.String())
	return res
}

// hostGetsItsOwn takes one of each kind that is counted per user.
func hostGetsItsOwn(t *testing.T) {
	t.Helper()
	i, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Errorf("the host cannot make an inotify instance: %v", err)
		return
	}
	defer unix.Close(i)
	if _, err := unix.InotifyAddWatch(i, "/", unix.IN_MODIFY); err != nil {
		t.Errorf("the host cannot watch a directory: %v", err)
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Errorf("the host cannot make a pipe: %v", err)
		return
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	if n, err := unix.Write(p[1], make([]byte, 4096)); err != nil || n != 4096 {
		t.Errorf("the host's pipe takes %d bytes: %v", n, err)
	}
	var timer int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&timer))); errno != 0 {
		t.Errorf("the host cannot make a timer: %v", errno)
		return
	}
	unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
}
