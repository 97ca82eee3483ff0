package limits_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// A host that runs out of memory ends any process of the far side: keepers,
// seats, inits and standbys. Nobody has a run in those that were only kept
// ready, and the next run must not meet them: a cell whose keeper had been
// ended failed every run until nobody had asked for five minutes.
func TestFarSideKilled(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: 2})
	if err := l.Prepare(context.Background(), isolate.Policy{}); err != nil {
		t.Fatal(err)
	}
	whole := len(farSide())
	if whole < 4 {
		t.Fatalf("the far side has %d processes, want a keeper, a seat, an init and a standby at least", whole)
	}
	for i := range whole {
		if err := l.Prepare(context.Background(), isolate.Policy{}); err != nil {
			t.Fatal(err)
		}
		if there := farSide(); i < len(there) {
			kill(t, there[i])
		}
		l.works()
	}
}

// farSide are the processes of the far side, in the order they were made in.
func farSide() (pids []int) {
	for _, d := range descendants(os.Getpid()) {
		pid, _ := strconv.Atoi(strings.Fields(d)[0])
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if string(line) == "keeper\x00" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill ends a process of ours and waits until those who hold its sockets can
// know. One that has ended by itself is as good.
func kill(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if !slices.Contains(farSide(), pid) {
		return // the number may be another's meanwhile
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		t.Fatal(err)
	}
	within(t, patience, func() error {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n == 0 {
			return fmt.Errorf("process %d does not end (%v)", pid, err)
		}
		return nil
	})
}

// A kept sandbox that was ended says so, and its files can still be had.
func TestKeptSandboxKilled(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	sb := l.kept(t, isolate.Policy{})
	in(t, sb, "echo wanted >file")
	for _, pid := range farSide() {
		kill(t, pid)
	}
	_, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a program in it gives %v", err)
	}
	f, err := sb.OpenFile("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "wanted\n" {
		t.Errorf("its file holds %q, %v", text, err)
	}
}
