package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// What is said before the Go run time is what would be said after it.
func TestEarlyWordsAreTheSame(t *testing.T) {
	for _, id := range [][2]int{{0, 0}, {0, 5}, {1500, 1500}, {1, 4294967294}} {
		if got, want := earlyWords(id[0], id[1]), bootstrap(cellConfig("/", id[0], id[1])); !bytes.Equal(got, want) {
			t.Errorf("user %v:\n%q, want\n%q", id, got, want)
		}
	}
}

// A process that was begun early becomes a keeper in new namespaces.
func TestEarly(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	place := here(t)
	if place.Movable() {
		t.Skip("needs cgroup v1 or hybrid: on v2 nothing is begun early")
	}
	beginEarly()
	w, err := Ahead(place)
	if err != nil || w.proc == nil || w.proc.image == nil {
		t.Fatalf("what was begun is not what is there: %+v, %v", w, err)
	}
	if err := w.proc.enter(cellConfig("/", os.Geteuid(), os.Getegid()), nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range []namespaces.Kind{namespaces.User, namespaces.Mount, namespaces.Net, namespaces.IPC} {
		err := examine(w.proc.pid, func(c *checker) {
			its, err := c.namespace(k)
			ours, ownErr := k.OwnInode()
			if err != nil || ownErr != nil || its == ours {
				c.differ("%s: %d, ours is %d; %v, %v", k, its, ours, err, ownErr)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	w.proc.kill()
	w.proc.wait()
	_ = w.control.close()

	if takeEarly(true) != nil {
		t.Error("one process is taken twice")
	}
}

// With few descriptors left there is no such process, or one that becomes a
// keeper: at a soft limit of 106 there was one that had ended already, and the
// command with it.
func TestEarlyWithFewDescriptors(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	begun := 0
	for most := uint64(100); most < 112; most++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		beginEarly()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		w := takeEarly(true)
		if w == nil {
			continue
		}
		begun++
		if err := w.proc.enter(cellConfig("/", os.Geteuid(), os.Getegid()), nil); err != nil {
			t.Errorf("with %d descriptors: %v", most, err)
			continue
		}
		w.proc.kill()
		w.proc.wait()
		_ = w.control.close()
	}
	if begun == 0 && !here(t).Movable() {
		t.Error("nothing was begun")
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
		call, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", "", err
		}
		defer unix.Close(call[0])
		theirCall := os.NewFile(uintptr(call[1]), "call")
		defer theirCall.Close()
		if _, err := unix.Write(call[0], []byte{0}); err != nil {
			return "", "", err
		}
		c := exec.Command("/proc/self/exe", "-test.run", "^$")
		c.Env, c.Stdout = []string{"_ISOLATE_ENTER=1"}, &out
		c.ExtraFiles = []*os.File{null, victim, theirCall, theirs} // 4 is what would be executed
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

// A process that nobody wants ends, and so does one whose caller is gone.
func TestWaitingEnds(t *testing.T) {
	w, err := Spawn()
	if err != nil {
		t.Fatal(err)
	}
	if <-w.done; w.err != nil {
		t.Fatal(w.err)
	}
	w.Close()
	if err := unix.Kill(w.proc.first, 0); err != unix.ESRCH {
		t.Errorf("the process that was not wanted: %v, want %v", err, unix.ESRCH)
	}
	w, err = Spawn()
	if err != nil {
		t.Fatal(err)
	}
	if <-w.done; w.err != nil {
		t.Fatal(w.err)
	}
	_ = w.control.close()
	w.proc.call.Close() // as the kernel does for who has died
	var how unix.WaitStatus
	if _, err := unix.Wait4(w.proc.first, &how, 0, nil); err != nil || how.ExitStatus() != 0 || !how.Exited() {
		t.Errorf("the process that was left alone ended with %v, %v", how, err)
	}
	if text, _ := io.ReadAll(w.proc.words); len(text) > 0 {
		t.Errorf("it says %q", text)
	}
}

// On v2 the processes that make a cell are born into its cgroup. The group is
// one of a hierarchy without controllers, which is all that this needs.
func TestNewcomerIsBornInItsGroup(t *testing.T) {
	testenv.Require(t, testenv.Root)
	place := here(t)
	if place.V2 == "" {
		testenv.Require(t, testenv.Cgroup2)
	}
	dir := filepath.Join(place.V2, fmt.Sprintf("isolate-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	w, err := Spawn()
	if err != nil {
		t.Fatal(err)
	}
	if <-w.done; w.err != nil {
		t.Fatal(w.err)
	}
	if err := w.proc.enter(cellConfig("/", os.Geteuid(), os.Getegid()), group); err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", w.proc.pid))
	if err != nil {
		t.Error(err)
	}
	if want := "/" + filepath.Base(dir) + "\n"; !strings.Contains(string(in), want) {
		t.Errorf("the keeper is in\n%s, want a line that ends in %q", in, want)
	}
	w.proc.kill()
	w.proc.wait()
	_ = w.control.close()
}
