package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/namespaces"
)

// What nsexec is told is what libcontainer itself would tell it: an update of
// libcontainer that changes the words must not go unnoticed.
func TestBootstrapIsLibcontainers(t *testing.T) {
	const flags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	type part interface{ Serialize() []byte }
	for uid, last := range map[int]part{
		0:    &libcontainer.Boolmsg{Type: libcontainer.SetgroupAttr, Value: true},
		1500: &libcontainer.Boolmsg{Type: libcontainer.RootlessEUIDAttr, Value: true},
	} {
		u, g := namespaces.Choose(uid, uid).CellMaps()
		var want []byte
		for _, p := range []part{
			&libcontainer.Int32msg{Type: libcontainer.CloneFlagsAttr, Value: flags},
			&libcontainer.Bytemsg{Type: libcontainer.UidmapAttr, Value: []byte(u.String() + "\n")},
			&libcontainer.Bytemsg{Type: libcontainer.GidmapAttr, Value: []byte(g.String() + "\n")},
			last,
		} {
			want = append(want, p.Serialize()...)
		}
		head := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(want)))
		head = binary.NativeEndian.AppendUint16(head, libcontainer.InitMsg)
		want = append(append(head, make([]byte, unix.NLMSG_HDRLEN-len(head))...), want...)
		if got := bootstrap(cellConfig("/", uid, uid)); !bytes.Equal(got, want) {
			t.Errorf("user %d:\n%q, want\n%q", uid, got, want)
		}
	}
}

// A program with more rights than who started it, as a set-uid one, executes
// nothing because of variables and descriptors that it was started with.
func TestNoCellWithBorrowedRights(t *testing.T) {
	testenv.Require(t, testenv.Root)
	victim, err := os.Open("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	start := func() (stdout, log string, err error) {
		var out strings.Builder
		said, theirs, err := os.Pipe()
		if err != nil {
			return "", "", err
		}
		defer said.Close()
		c := exec.Command("/proc/self/exe", "-test.run", "^$")
		c.Env, c.Stdout = []string{"_ISOLATE_ENTER=1"}, &out
		c.ExtraFiles = []*os.File{null, victim, null, theirs} // 4 is what would be executed
		err = c.Run()
		theirs.Close()
		text, _ := io.ReadAll(said)
		return out.String(), string(text), err
	}
	if out, _, err := start(); err != nil || out != "\n" {
		t.Fatalf("without borrowed rights: %q, %v", out, err)
	}
	type result struct {
		out, said string
		err       error
	}
	got := make(chan result)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		var r result
		// of this thread alone: what it starts has the rights of another user
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 0, 0); errno != 0 {
			r.err = errno
		} else {
			r.out, r.said, r.err = start()
		}
		got <- r
	}()
	r := <-got
	var exit *exec.ExitError
	if !errors.As(r.err, &exit) || exit.ExitCode() != 1 || r.out != "" || !strings.Contains(r.said, "set-uid") {
		t.Errorf("%q, %q, %v", r.out, r.said, r.err)
	}
}

// A keeper that another part of the program has waited for may have left its
// number to a process that is none of ours.
func TestKillSparesWhoHasTheNumberNow(t *testing.T) {
	var procs [2]*exec.Cmd
	for i := range procs {
		procs[i] = exec.Command("sleep", "60")
		if err := procs[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	keeper, other := procs[0].Process.Pid, procs[1].Process.Pid
	fd, err := unix.PidfdOpen(keeper, 0)
	if err != nil {
		t.Fatal(err)
	}
	words, _, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	n := &newcomer{pid: other, pidfd: fd, words: words, alone: make(chan struct{})}
	close(n.alone)
	_ = unix.Kill(keeper, unix.SIGKILL)
	_ = procs[0].Wait()
	n.kill()
	n.wait()
	if err := unix.Kill(other, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := procs[1].Wait(); !errors.As(err, &exit) || exit.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGTERM {
		t.Errorf("the other process: %v", err)
	}
}
