package host

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// plain tries what needs no namespaces.
func (t *tally) plain(ask Ask) {
	t.try("kernel.seccomp-notify", nil, step{"let a listener answer a refused system call", notified})
	for _, g := range ask.Cgroups {
		t.cgroup(g)
	}
}

// The kernel's structures of one notification, from linux/seccomp.h.
type (
	seccompData struct {
		nr                 int32
		arch               uint32
		instructionPointer uint64
		args               [6]uint64
	}
	seccompNotif struct {
		id    uint64
		pid   uint32
		flags uint32
		data  seccompData
	}
	seccompNotifResp struct {
		id    uint64
		val   int64
		err   int32
		flags uint32
	}
)

// notifyWait bounds the wait for a notification that the kernel sends at once.
const notifyWait = 2 * time.Second

// notified filters socket(2) on a thread that is then thrown away, answers its
// notification with an error number nothing else gives, and passes if the
// thread has received that number.
func notified() (string, error) {
	const answer = unix.EUCLEAN
	type listener struct {
		fd       int
		killable bool
		err      error
	}
	listening := make(chan listener, 1)
	answered := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its filter
		fd, killable, err := listenForSocket()
		listening <- listener{fd, killable, err}
		if err != nil {
			return
		}
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, answer) {
			err = nil
		} else {
			err = notSo(err)
		}
		answered <- err
	}()
	l := <-listening
	if l.err != nil {
		return "", l.err
	}
	defer unix.Close(l.fd)
	detail := "waits are killable"
	if !l.killable {
		detail = "waits are not killable"
	}
	for deadline := time.Now().Add(notifyWait); ; {
		select {
		case err := <-answered:
			return detail, err
		default:
		}
		if time.Now().After(deadline) {
			return detail, unix.ETIMEDOUT
		}
		if err := answerOne(l.fd, answer); err != nil {
			return detail, err
		}
	}
}

// listenForSocket makes every socket(2) of this thread wait for the listener.
func listenForSocket() (fd int, killable bool, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, false, err
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SOCKET},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} {
		r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|flags, uintptr(unsafe.Pointer(&prog)))
		if e == 0 {
			return int(r), flags != 0, nil
		}
		err = e
		if e != unix.EINVAL { // EINVAL: this kernel does not know the flag
			break
		}
	}
	return -1, false, err
}

// answerOne waits a moment for a notification and answers it.
func answerOne(fd int, answer unix.Errno) error {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 20); n <= 0 || err != nil { // 20 ms
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return err
	}
	if poll[0].Revents&unix.POLLIN == 0 {
		return nil // the thread has ended
	}
	var req seccompNotif
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&req)))
	if e == unix.ENOENT || e == unix.EINTR {
		return nil // a signal took the call back; it comes again
	}
	if e != 0 {
		return e
	}
	resp := seccompNotifResp{id: req.id, err: -int32(answer)}
	_, _, e = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&resp)))
	if e == unix.ENOENT || e == 0 {
		return nil
	}
	return e
}

// probeLimit is a file to write and read back and its content; empty for what
// has no limit. The values are any that the kernel does not round and a child
// can live with.
func probeLimit(c Controller) (file, value string) {
	switch c.Name {
	case "memory":
		return byVersion(c, "memory.limit_in_bytes", "memory.max"), "268435456"
	case "pids":
		return "pids.max", "4093"
	case "cpu":
		return byVersion(c, "cpu.cfs_quota_us", "cpu.max"), byVersion(c, "50000", "50000 100000")
	}
	return "", ""
}

func byVersion(c Controller, one, two string) string {
	if c.Version == 1 {
		return one
	}
	return two
}

// controlFiles are the files whose presence in a new group the checks want to know.
var controlFiles = []string{
	"cgroup.kill", "memory.oom.group", "memory.swap.max", "memory.memsw.limit_in_bytes", "memory.peak",
}

// cgroup makes a group below g, limits it, reads the limit back and moves this
// process into it. The parent removes the group when the process has ended.
func (t *tally) cgroup(g AskCgroup) {
	c := g.Controller
	dir := filepath.Join(c.Dir, g.Name)
	var files []string
	steps := []step{act("make a group in "+c.Dir, func() error {
		err := os.Mkdir(dir, 0o755)
		for _, f := range controlFiles {
			if _, serr := os.Stat(filepath.Join(dir, f)); err == nil && serr == nil {
				files = append(files, f)
			}
		}
		return err
	})}
	file, value := probeLimit(c)
	switch {
	case file != "" && c.Enabled:
		steps = append(steps, act("write "+file, func() error {
			return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
		}), act("read it back", func() error {
			return holds(filepath.Join(dir, file), value)
		}))
	case file != "" && g.Enable != "":
		steps = append(steps, step{"write " + g.Enable + " to cgroup.subtree_control", func() (string, error) {
			return offers(c.Dir, g.Enable)
		}})
	}
	steps = append(steps, act("move into it", func() error {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
	}))
	t.try(g.Probe, nil, steps...)
	t.answer.Findings[len(t.answer.Findings)-1].Files = files
}

func holds(path, want string) error {
	b, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(b)) != want {
		err = notSo(strings.TrimSpace(string(b)))
	}
	return err
}

// offers passes if the kernel would hand controllers on. It cannot as long as
// there are processes in the group, and whoever started this process is: EBUSY
// comes after the kernel has found the controllers available and the writer
// entitled. That holds for memory; pids and cpu alone would be handed on, which
// would make the group one of threads, so they are asked for together with it.
func offers(dir, enable string) (string, error) {
	err := os.WriteFile(dir+"/cgroup.subtree_control", []byte(enable), 0)
	if errors.Is(err, unix.EBUSY) {
		return "the write answered EBUSY, as it must while processes are in the group: it would hand them on", nil
	}
	return "", err
}
