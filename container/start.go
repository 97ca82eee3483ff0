package container

/*
#include "enter.h"
*/
import "C"

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer/configs"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // nsexec
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/cgroup"
)

// Waiting is a process that is there to become a keeper, and waits to be told
// of a cell. It is this program, executed again, before its Go run time; it has
// entered no namespace and no cgroup yet, so it depends on nothing.
type Waiting struct {
	control sock // our end of its socket

	proc *newcomer
	err  error
	done chan struct{} // closed when proc or err is set
}

// Ahead is Spawn before Open, for a program that is going to need a cell and is
// at place. It is nil where Open may move this process to another cgroup, as on
// version 2: who stayed behind could not be born into the keepers' (it would
// need rights on what is above both), and kept the old one from having
// controllers. It may have been begun before main (early.go).
func Ahead(place cgroup.Place) (*Waiting, error) {
	wanted := !place.Movable()
	if w := takeEarly(wanted); w != nil || !wanted {
		return w, nil
	}
	return Spawn()
}

// Spawn begins to start a process for a cell; Begin or Close must follow.
func Spawn() (*Waiting, error) {
	control, theirs, err := sockPair()
	if err != nil {
		return nil, err
	}
	w := &Waiting{control: control, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer theirs.Close()
		w.proc, w.err = startNewcomer(theirs)
	}()
	runtime.Gosched() // what was begun takes longest: it goes first
	return w, nil
}

// Close ends a process that is not wanted after all. It does nothing to nil.
func (w *Waiting) Close() {
	if w == nil {
		return
	}
	_ = w.control.close()
	if <-w.done; w.err == nil {
		_ = w.proc.abandon()
	}
}

// newcomer is a keeper that was started by way of libcontainer's nsexec, or the
// process that is to become one.
type newcomer struct {
	first int           // of its processes; their process group
	call  *os.File      // our end of the socket that it is told by; nil when it was
	words *os.File      // our end of nsexec's log
	pid   int           // of the keeper
	pidfd int           // of pid; a number may come to mean another process
	alone chan struct{} // closed when nsexec's other processes are gone

	// image is the keeper, for a process that was begun early: it has been told
	// its configuration, and waits for this. nil for others, which have it.
	image *os.File
}

// startNewcomer starts the process. It is given the keeper as a sealed memfd: no
// file of the root file system is executed, and none can be exchanged for it.
// control is the keeper's end of its socket.
//
// Package os would first try out, in a process of its own, whether it can have
// handles of processes; this one needs none: it is waited for once.
func startNewcomer(control *os.File) (*newcomer, error) {
	image, err := keeperFile()
	if err != nil {
		return nil, err
	}
	defer image.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make socket pair: %w", err)
	}
	call, theirCall := os.NewFile(uintptr(pair[0]), "call"), os.NewFile(uintptr(pair[1]), "call")
	defer theirCall.Close()
	if err := boundAnswers(pair[0]); err != nil {
		call.Close()
		return nil, err
	}
	words, theirWords, err := os.Pipe()
	if err != nil {
		call.Close()
		return nil, fmt.Errorf("cannot make pipe: %w", err)
	}
	defer theirWords.Close()
	attr := &syscall.ProcAttr{
		Dir: "/",
		Env: []string{
			C.ENTER_VARIABLE + "=1", fmt.Sprintf("_LIBCONTAINER_INITPIPE=%d", C.INIT_FD),
			fmt.Sprintf("_LIBCONTAINER_LOGPIPE=%d", C.LOG_FD), "_LIBCONTAINER_LOGLEVEL=2",
		},
		// what it starts are children of ours, too; until one is the keeper
		// they stay in one process group
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	for _, f := range []*os.File{null, null, null, control, image, theirCall, theirWords} {
		attr.Files = append(attr.Files, f.Fd())
	}
	first, err := syscall.ForkExec("/proc/self/exe", []string{"isolate-cell"}, attr)
	if err != nil {
		call.Close()
		words.Close()
		return nil, fmt.Errorf("cannot start cell: %w", err)
	}
	return &newcomer{first: first, call: call, words: words, alone: make(chan struct{})}, nil
}

// boundAnswers bounds how long is waited for what nsexec says.
func boundAnswers(call int) error {
	limit := unix.NsecToTimeval(farSideTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(call, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return fmt.Errorf("cannot prepare socket pair: %w", err)
	}
	return nil
}

// enter has the process make the namespaces of the configuration and run the
// keeper in them, born into the cgroup group; nil is ours. If it fails the
// process is gone.
func (n *newcomer) enter(config *configs.Config, group *os.File) error {
	err := n.tell(config, group)
	if err == nil {
		n.pidfd, err = unix.PidfdOpen(n.pid, 0) // nobody has waited for it yet
	}
	if err != nil {
		return errors.Join(err, n.abandon())
	}
	n.call.Close()
	n.image.Close() // of nil: nothing
	n.call = nil
	go func() {
		defer close(n.alone)
		reapGroup(n.first)
	}()
	return nil
}

// abandon ends the process before it is a keeper and says what it said.
func (n *newcomer) abandon() error {
	_ = unix.Kill(-n.first, unix.SIGKILL)
	reapGroup(n.first)
	n.call.Close()
	n.image.Close() // of nil: nothing
	err := n.said()
	n.words.Close()
	return err
}

// tell says what to make, and learns which process becomes the keeper: a byte
// with the cgroup for enter.c, then the configuration for nsexec.
func (n *newcomer) tell(config *configs.Config, group *os.File) error {
	var rights []byte
	words := []byte{0}
	switch {
	case n.image == nil:
		words = append(words, bootstrap(config)...)
	case group != nil:
		return errors.New("a process that was begun early is in no cgroup of the keepers")
	default:
		rights = unix.UnixRights(int(n.image.Fd()))
	}
	if group != nil {
		rights = unix.UnixRights(int(group.Fd()))
	}
	if err := unix.Sendmsg(int(n.call.Fd()), words, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("cannot tell the new process of its cell: %w", err)
	}
	var pids struct {
		Keeper int `json:"stage2_pid"`
	}
	buf := make([]byte, 256)
	got, err := n.call.Read(buf)
	if err != nil {
		return errors.New("libcontainer made no namespaces")
	}
	err = json.Unmarshal(buf[:got], &pids)
	n.pid = pids.Keeper
	return err
}

// reapGroup waits until no child of ours is left in a process group.
func reapGroup(group int) {
	for {
		if _, err := unix.Wait4(-group, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}

// kill ends the keeper, and with it everything in its PID namespace.
func (n *newcomer) kill() { _ = unix.PidfdSendSignal(n.pidfd, unix.SIGKILL, nil, 0) }

// wait waits until no process of the cell is left. kill must come before, and
// must not come again.
func (n *newcomer) wait() {
	<-n.alone
	for unix.Waitid(unix.P_PIDFD, n.pidfd, nil, unix.WEXITED, nil) == unix.EINTR {
	}
	unix.Close(n.pidfd)
	n.words.Close()
}

// wordsTimeout bounds the wait for the end of nsexec's processes when one has
// failed.
const wordsTimeout = time.Second

// said are the errors in nsexec's log, nil if there are none. It waits for the
// end of all of its processes.
func (n *newcomer) said() error {
	_ = n.words.SetReadDeadline(time.Now().Add(wordsTimeout))
	text, _ := io.ReadAll(n.words)
	var words []string
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var line struct{ Msg string }
		if d.Decode(&line) != nil {
			break
		}
		words = append(words, line.Msg)
	}
	if len(words) == 0 {
		return nil
	}
	return errors.New(strings.Join(words, "; "))
}

// bootstrap writes the configuration in nsexec's words: a netlink message.
func bootstrap(c *configs.Config) []byte {
	le := binary.NativeEndian
	var b []byte
	attr := func(kind int, value []byte) {
		b = le.AppendUint16(b, uint16(4+len(value)))
		b = le.AppendUint16(b, uint16(kind))
		b = append(b, value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	number := func(n uint32) []byte { return le.AppendUint32(nil, n) }
	maps := func(list []configs.IDMap) []byte {
		var s strings.Builder
		for _, m := range list {
			fmt.Fprintf(&s, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
		}
		return append([]byte(s.String()), 0)
	}
	attr(C.CLONE_FLAGS_ATTR, number(uint32(c.Namespaces.CloneFlags())))
	attr(C.UID_MAP_ATTR, maps(c.UIDMappings))
	attr(C.GID_MAP_ATTR, maps(c.GIDMappings))
	if c.RootlessEUID {
		attr(C.ROOTLESS_EUID_ATTR, number(1))
	} else {
		attr(C.SETGROUP_ATTR, number(1)) // give up the supplementary groups
	}
	head := number(uint32(16 + len(b)))
	head = le.AppendUint16(head, C.INIT_MSG)
	return append(append(head, make([]byte, 10)...), b...)
}
