package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cellNamespaces are the namespaces of a cell, and of a sandbox inside it.
const cellNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// selfFile is the file this program was started from.
const selfFile = "/proc/self/exe"

// What a child in namespaces reports.
var (
	cellProbes    = []string{"mount.tmpfs", "mount.bind", "proc.mount", "proc.subset", "net.loopback", "inotify.watch", "userns.nested", "userns.close", "mount.pivot"}
	sandboxProbes = []string{"userns.close"}
)

func (k runningKernel) Child(ctx context.Context, a Ask) Answer {
	var t tally
	image, err := sealedSelf()
	if err == nil {
		defer image.Close()
	}
	exe := t.memfd(ctx, k.timeout, a, image, err)
	if !t.namespaces(ctx, k.timeout, a, exe) {
		t.skip("userns.create", cellProbes...)
	}
	t.mapping(ctx, k.timeout, a, exe)
	// The plain child ended inside the groups it made.
	for _, g := range a.Cgroups {
		_ = unix.Rmdir(filepath.Join(g.Controller.Dir, g.Name))
	}
	return t.answer
}

// memfd runs the plain stage from the image and tells from which file the
// other stages are to be run.
func (t *tally) memfd(ctx context.Context, timeout time.Duration, a Ask, image *os.File, err error) (exe string) {
	f := Finding{Probe: "memfd.exec", Step: "copy this program into a sealed memfd"}
	if err == nil {
		f.Step = "execute a sealed memfd"
		exe = fmt.Sprintf("/proc/self/fd/%d", image.Fd())
		err = t.plainStage(ctx, timeout, a, exe)
		if errors.Is(err, errGaveUp) {
			t.answer.Err = err.Error()
			return exe
		}
	}
	if err != nil {
		f.Errno = errnoOf(err)
		exe = selfFile
		if err := t.plainStage(ctx, timeout, a, exe); err != nil {
			t.answer.Err = "cannot start a probing child: " + err.Error()
		}
	}
	t.add(f)
	return exe
}

// plainStage returns why the child was not started. If it broke later, the
// answer says so.
func (t *tally) plainStage(ctx context.Context, timeout time.Duration, a Ask, exe string) error {
	ans, err := runChild(ctx, timeout, exe, stagePlain, a, 0)
	switch {
	case err == nil:
		t.merge(ans)
	case errors.Is(err, errGaveUp):
		return err
	case startErr(err) == nil:
		t.answer.Err = err.Error()
	}
	return startErr(err)
}

// namespaces runs the cell stage. If it cannot be started, it finds out by
// parts why.
func (t *tally) namespaces(ctx context.Context, timeout time.Duration, a Ask, exe string) bool {
	ans, err := runChild(ctx, timeout, exe, stageCell, a, cellNamespaces)
	if err == nil {
		t.add(Finding{Probe: "userns.create", Step: "make user, mount, pid, network, ipc and uts namespaces from " + describe(exe)})
		t.merge(ans)
		return true
	}
	start := startErr(err)
	if start == nil { // it started and did not finish, or it is too late to try
		if !errors.Is(err, errGaveUp) {
			t.add(Finding{Probe: "userns.create", Step: "make all namespaces from " + describe(exe)})
		}
		t.answer.Err = err.Error()
		return true
	}
	f := Finding{Probe: "userns.create", Errno: errnoOf(start)}
	f.Step = "make user, mount, pid, network, ipc and uts namespaces at once"
	for _, p := range []struct {
		flags uintptr
		name  string
	}{
		{unix.CLONE_NEWUSER, "a user namespace and map this user to root in it"},
		{unix.CLONE_NEWNS, "a mount namespace inside a user namespace"},
		{unix.CLONE_NEWPID, "a pid namespace inside a user namespace"},
		{unix.CLONE_NEWNET, "a network namespace inside a user namespace"},
		{unix.CLONE_NEWIPC, "an ipc namespace inside a user namespace"},
		{unix.CLONE_NEWUTS, "a uts namespace inside a user namespace"},
	} {
		if e := startErr(tryNamespaces(ctx, timeout, exe, a, p.flags|unix.CLONE_NEWUSER)); e != nil {
			f.Step, f.Errno = "make "+p.name, errnoOf(e)
			break
		}
	}
	// A profile for the program's path need not hold for its copy.
	if exe != selfFile && tryNamespaces(ctx, timeout, selfFile, a, cellNamespaces) == nil {
		f.Detail = "while it works from the program's file"
	}
	t.add(f)
	return false
}

// tryNamespaces starts a child in new namespaces that does nothing.
func tryNamespaces(ctx context.Context, timeout time.Duration, exe string, a Ask, flags uintptr) error {
	_, err := runChild(ctx, timeout, exe, stageIdle, a, flags)
	return err
}

func describe(exe string) string {
	if exe == selfFile {
		return "the program's file"
	}
	return "a sealed memfd"
}

// errGaveUp marks a child that was not started because the time was over.
var errGaveUp = errors.New("cannot probe any more")

// errStart marks a child that could not be started.
type errStart struct{ err error }

func (e errStart) Error() string { return "cannot start a probing child: " + e.err.Error() }
func (e errStart) Unwrap() error { return e.err }

// startErr is err if the child could not be started, else nil.
func startErr(err error) error {
	if s, ok := errors.AsType[errStart](err); ok {
		return s.err
	}
	return nil
}

// maxAnswer bounds what is read of a child; an answer has about 4 KiB.
const maxAnswer = 1 << 20

// runChild runs one stage and waits until nothing of it is left.
func runChild(ctx context.Context, timeout time.Duration, exe, stage string, a Ask, flags uintptr) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The parent-death signal is sent when the starting thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	in, err := json.Marshal(a)
	if err != nil {
		return Answer{}, err
	}
	if stage == stageIdle {
		in = nil
	}
	var out, complaint bytes.Buffer
	cmd := childCommand(ctx, exe, stage, a, flags)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stdout, cmd.Stderr = limit(&out), limit(&complaint)
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil { // says nothing about the machine
			return Answer{}, fmt.Errorf("%w: %w", errGaveUp, ctx.Err())
		}
		return Answer{}, errStart{err}
	}
	err = cmd.Wait()
	var ans Answer
	if stage == stageIdle && err == nil {
		return ans, nil
	}
	if derr := json.Unmarshal(out.Bytes(), &ans); err == nil {
		err = derr
	}
	if err != nil {
		return Answer{}, fmt.Errorf("probing child %q gave no answer: %w, it said %q", stage, err, firstLine(complaint.String()))
	}
	return ans, nil
}

func childCommand(ctx context.Context, exe, stage string, a Ask, flags uintptr) *exec.Cmd {
	cmd := exec.CommandContext(ctx, exe)
	cmd.Args = []string{childName, stage}
	cmd.Env = []string{} // nothing of ours, not "as the parent"
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: a.UID, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: a.GID, Size: 1}}
	}
	return cmd
}

// mapping maps a range of subordinate ids onto an idle child.
func (t *tally) mapping(ctx context.Context, timeout time.Duration, a Ask, exe string) {
	m := a.Mapping
	if m == nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := childCommand(ctx, exe, stageIdle, a, unix.CLONE_NEWUSER)
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = nil, nil
	var hold io.WriteCloser
	var pid string
	t.try("identity.map", []string{"userns.create"},
		act("start a child to map", func() (err error) {
			if hold, err = cmd.StdinPipe(); err != nil {
				return err
			}
			if err = cmd.Start(); err == nil {
				pid = strconv.Itoa(cmd.Process.Pid)
			}
			return err
		}),
		step{"map user ids with " + m.NewUIDMap, func() (string, error) { return runMap(ctx, m.NewUIDMap, pid, a.UID, m.UIDs) }},
		step{"map group ids with " + m.NewGIDMap, func() (string, error) { return runMap(ctx, m.NewGIDMap, pid, a.GID, m.GIDs) }},
		act("read the mapped range back", func() error {
			b, err := os.ReadFile("/proc/" + pid + "/uid_map")
			if err == nil && strings.Count(string(b), "\n") != 2 {
				err = unix.ENODATA
			}
			return err
		}))
	if cmd.Process != nil {
		hold.Close()
		_ = cmd.Wait() // it only waited for us
	}
}

// runMap maps 0 to own and 1… to the range. The programs refuse in a sentence
// and with exit code 1, which counts as EPERM. They are set-uid root and cannot
// be killed; one that hangs, for example on a network user directory, is left
// to the goroutine that reaps it.
func runMap(ctx context.Context, program, pid string, own int, r Range) (string, error) {
	type ended struct {
		out []byte
		err error
	}
	done := make(chan ended, 1)
	go func() {
		out, err := exec.Command(program, pid, "0", strconv.Itoa(own), "1",
			"1", strconv.FormatInt(r.First, 10), strconv.FormatInt(r.Count, 10)).CombinedOutput()
		done <- ended{out, err}
	}()
	select {
	case <-ctx.Done():
		return "", unix.ETIMEDOUT
	case e := <-done:
		if _, ok := errors.AsType[*exec.ExitError](e.err); ok {
			return fmt.Sprintf("it said %q", firstLine(string(e.out))), unix.EPERM
		}
		return "", e.err
	}
}

// sealedSelf copies the running program into a memfd and seals it.
func sealedSelf() (*os.File, error) {
	self, err := os.Open(selfFile)
	if err != nil {
		return nil, err
	}
	defer self.Close()
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(childName, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there is no MFD_EXEC
		fd, err = unix.MemfdCreate(childName, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), childName)
	if _, err = io.Copy(f, self); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// limited keeps the first maxAnswer bytes and drops the rest.
type limited struct{ to *bytes.Buffer }

func limit(to *bytes.Buffer) io.Writer { return limited{to} }

func (l limited) Write(b []byte) (int, error) {
	l.to.Write(b[:min(len(b), maxAnswer-l.to.Len())])
	return len(b), nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
