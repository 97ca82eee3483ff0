package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Errors of DoorCall.Do.
var (
	// ErrCold means that nothing was done: there is no server, or it is not for
	// this command.
	ErrCold = errors.New("the server does not carry the command out")
	// ErrDied means that the server has ended before the command, of which
	// nothing more is known.
	ErrDied = errors.New("the server has ended before the command")
	// ErrStuck means that the server does not heed signals.
	ErrStuck = errors.New("the server does not end the command")
)

// DoorCall is a command line that a server is to carry out.
type DoorCall struct {
	// Args is the command line, Dir the working directory, absolute.
	Args []string
	Dir  string
	// Env are the variables that the command looks at, as NAME=VALUE.
	Env []string
	// Files are the descriptors to pass, 0, 1 and 2 among them.
	Files []DoorFile
}

// DoorFile is a descriptor of this process and what it is to the command: its
// number there, or DoorTools.
type DoorFile struct {
	Name string
	FD   int
}

// Reach connects to a server of our own user: others would learn our command
// line.
func Reach(socket string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCold, err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var who *syscall.Ucred
		var whoErr error
		err = errors.Join(raw.Control(func(fd uintptr) {
			who, whoErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		}), whoErr)
		if err == nil && int(who.Uid) != os.Geteuid() {
			err = errors.New("it is another user's")
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%w: %w", ErrCold, err)
	}
	return conn, nil
}

// Do passes the call to a server that was reached, forwards signals, SIGCONT among
// them, and returns the exit code. At so many others it waits no longer and returns
// ErrStuck, with the exit code that a shell gives for the signal; zero means that
// it always waits.
func (d DoorCall) Do(conn *net.UnixConn, signals <-chan os.Signal, patience int) (code int, err error) {
	frame := d.frame()
	if len(frame) > DoorHeader+DoorMax {
		return 0, fmt.Errorf("%w: its command line is too long", ErrCold)
	}
	fds := make([]int, len(d.Files))
	for i, f := range d.Files {
		fds[i] = f.FD
	}
	n, _, err := conn.WriteMsgUnix(frame, syscall.UnixRights(fds...), nil)
	if err == nil && n < len(frame) {
		_, err = conn.Write(frame[n:])
	}
	if err != nil { // without the whole frame nothing is done
		return 0, fmt.Errorf("%w: %w", ErrCold, err)
	}
	type reply struct {
		is  [2]byte
		err error
	}
	replies := make(chan reply, 1)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			var r reply
			_, r.err = io.ReadFull(conn, r.is[:])
			select {
			case replies <- r:
			case <-done:
				return
			}
			if r.err != nil || r.is[0] != DoorStop {
				return
			}
		}
	}()
	var stays <-chan time.Time
	var told [2]byte // the last DoorStop; its first byte is gone once we looked again
	for {
		select {
		case s := <-signals:
			sig, _ := s.(syscall.Signal)
			if sig == syscall.SIGCONT {
				stays = nil
			} else if patience--; patience == 0 {
				return 128 + int(sig), ErrStuck
			}
			_, _ = conn.Write([]byte{byte(sig)})
		case <-stays:
			// a SIGCONT may be on its way, however long we were stopped
			if stays = nil; told[0] != 0 {
				told[0], stays = 0, time.After(stopWait)
			} else {
				_, _ = conn.Write(told[1:])
			}
		case r := <-replies:
			if r.err == nil && r.is[0] == DoorStop {
				told, stays = r.is, time.After(stopWait)
				stopGroup(syscall.Signal(r.is[1]))
				continue
			}
			switch {
			case r.err == nil && r.is[0] == DoorExit:
				return int(r.is[1]), nil
			case r.err == nil && r.is[0] == DoorCold:
				return 0, ErrCold
			}
			return 0, ErrDied
		}
	}
}

// stopWait is twice what a signal may take to reach us.
const stopWait = 50 * time.Millisecond

// stopGroup stops our process group as a terminal does.
func stopGroup(s syscall.Signal) {
	if s == syscall.SIGTTIN || s == syscall.SIGTTOU {
		_ = syscall.Kill(0, s) // one may always signal oneself
	}
}

// frame is the call as it goes through the door.
func (d DoorCall) frame() []byte {
	var body []byte
	for _, n := range []int{len(d.Args), len(d.Env), len(d.Files)} {
		body = binary.LittleEndian.AppendUint32(body, uint32(n))
	}
	parts := append(append([]string{d.Dir}, d.Args...), d.Env...)
	for _, f := range d.Files {
		parts = append(parts, f.Name)
	}
	body = append(body, strings.Join(parts, "\x00")+"\x00"...)
	head := binary.LittleEndian.AppendUint32([]byte(DoorMagic), uint32(len(body)))
	return bytes.Join([][]byte{head, body}, nil)
}
