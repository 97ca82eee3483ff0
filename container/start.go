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
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer/configs"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // nsexec
	"golang.org/x/sys/unix"
)

// newcomer is a keeper that was started by way of libcontainer's nsexec.
type newcomer struct {
	pid   int
	pidfd int           // of pid; a number may come to mean another process
	words *os.File      // our end of nsexec's log
	alone chan struct{} // closed when nsexec's other processes are gone
}

// startKeeper makes the namespaces of the configuration and runs the keeper in
// them: control is its end of its socket, image what it is, group the cgroup
// that it is born into, nil for ours.
//
// Package os would first try out, in a process of its own, whether it can have
// handles of processes; this one needs none: it is waited for once.
func startKeeper(config *configs.Config, control, image, group *os.File) (*newcomer, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make socket pair: %w", err)
	}
	limit := unix.NsecToTimeval(farSideTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, fmt.Errorf("cannot prepare socket pair: %w", err)
	}
	init, theirInit := os.NewFile(uintptr(pair[0]), "init"), os.NewFile(uintptr(pair[1]), "init")
	defer init.Close()
	defer theirInit.Close()
	words, theirWords, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make pipe: %w", err)
	}
	defer theirWords.Close()
	attr := &syscall.ProcAttr{
		Dir: "/",
		Env: []string{
			C.ENTER_VARIABLE + "=1", fmt.Sprintf("_LIBCONTAINER_INITPIPE=%d", C.INIT_FD),
			fmt.Sprintf("_LIBCONTAINER_LOGPIPE=%d", C.LOG_FD), "_LIBCONTAINER_LOGLEVEL=2",
		},
		// what nsexec starts are children of ours, too; until one is the
		// keeper they stay in one process group
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	for _, f := range []*os.File{null, null, null, control, image, theirInit, theirWords} {
		attr.Files = append(attr.Files, f.Fd())
	}
	if group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(group.Fd())
	}
	first, err := syscall.ForkExec("/proc/self/exe", []string{"isolate-cell"}, attr)
	if err != nil {
		words.Close()
		return nil, err
	}
	theirInit.Close()
	theirWords.Close()
	n := &newcomer{words: words, alone: make(chan struct{})}
	if n.pid, err = meet(config, init); err == nil {
		n.pidfd, err = unix.PidfdOpen(n.pid, 0) // nobody has waited for it yet
	}
	if err != nil {
		_ = unix.Kill(-first, unix.SIGKILL)
		reapGroup(first)
		err = errors.Join(err, n.said())
		words.Close()
		return nil, err
	}
	go func() {
		defer close(n.alone)
		reapGroup(first)
	}()
	return n, nil
}

// meet tells nsexec what to make and learns which process becomes the keeper.
func meet(config *configs.Config, init *os.File) (keeper int, err error) {
	if _, err := init.Write(bootstrap(config)); err != nil {
		return 0, err
	}
	var pids struct {
		Keeper int `json:"stage2_pid"`
	}
	buf := make([]byte, 256)
	got, err := init.Read(buf)
	if err != nil {
		return 0, errors.New("libcontainer made no namespaces")
	}
	return pids.Keeper, json.Unmarshal(buf[:got], &pids)
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

// The attributes of nsexec's configuration, libcontainer/message_linux.go.
const (
	initMsg          = 62000
	cloneFlagsAttr   = 27281
	uidMapAttr       = 27283
	gidMapAttr       = 27284
	setgroupAttr     = 27285
	rootlessEUIDAttr = 27287
)

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
	attr(cloneFlagsAttr, number(uint32(c.Namespaces.CloneFlags())))
	attr(uidMapAttr, maps(c.UIDMappings))
	attr(gidMapAttr, maps(c.GIDMappings))
	if c.RootlessEUID {
		attr(rootlessEUIDAttr, number(1))
	} else {
		attr(setgroupAttr, number(1)) // give up the supplementary groups
	}
	head := number(uint32(16 + len(b)))
	head = le.AppendUint16(head, initMsg)
	return append(append(head, make([]byte, 10)...), b...)
}
