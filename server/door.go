package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
)

// The door is how a whole command line comes to the server. package client has
// the protocol, beside its constants.

// Call is a command line that came through the door: a process of our user
// waits outside, and its streams are here.
type Call struct {
	// Args is the command line, Args[0] the name of the command itself.
	Args []string
	// Dir is the working directory of the process outside.
	Dir string
	// Env are the variables it passed: not all it has.
	Env map[string]string
	// Files are its descriptors by number, as they are outside. They may be
	// anything; none of them holds a reader or writer up after the call.
	Files map[int]*Stdio
	// Tools is a connection to who serves the tools of the command's program
	// (package bridge/loan); nil if nobody does. It is closed after the call.
	Tools *net.UnixConn
	// Signals are those the process outside got. It is closed at the end.
	Signals <-chan syscall.Signal

	// Limits are those of the process outside.
	Limits plan.ProcessLimits

	// Started is for the Cmd of the program that the command line runs, and Used
	// is to be told what that used when it has ended.
	Started func(isolate.Running)
	Used    func(isolate.Usage)

	run  *run
	exit func(code int)
}

// Exit tells the process outside its exit code, and so ends it. What is left
// to do goes on. Only the first call counts.
func (c *Call) Exit(code int) { c.exit(code) }

// errGone is the cause of the end of a call whose process has gone away.
var errGone = fmt.Errorf("the process that asked has gone away: %w", isolate.ErrAbandoned)

// door serves one caller. It returns when nothing of the call is left.
func (s *Server) door(conn *net.UnixConn, who peer, first parcel) {
	defer first.drop()
	if s.options.Call == nil || s.isDraining() {
		refer(conn)
		return
	}
	body, err := readFrame(conn, first.data)
	if err != nil {
		refer(conn)
		return
	}
	s.quiet.leave(conn)
	call, err := decodeCall(body, first.files)
	if err != nil {
		refer(conn)
		return
	}
	groups, err := groupsOf(conn)
	if err != nil || s.self.unlike(who, groups) != "" || namesItself(call.Args) {
		refer(conn)
		return
	}
	// the kernel says them, as it says who is there
	if call.Limits, err = isolate.LimitsOf(who.pid); err != nil {
		refer(conn)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})

	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	call.run = s.runs.begin(runDoor, who.pid, call.Args, cancel)
	if call.run == nil {
		refer(conn)
		return
	}
	defer s.runs.end(call.run)
	call.Started, call.Used = call.run.started, call.run.used
	call.exit = func(code int) {
		call.run.exited(code)
		_, _ = conn.Write([]byte{client.DoorExit, byte(code)})
		// the process outside ends now, and that is no reason to cancel
		_ = conn.CloseRead()
	}
	call.exit = onceWith(call.exit)
	job := newJob(who.pid, func(sig syscall.Signal) {
		_, _ = conn.Write([]byte{client.DoorStop, byte(sig)})
	})
	for _, f := range call.Files {
		f.job = job
	}
	signals := make(chan syscall.Signal, 8)
	call.Signals = signals
	var listening sync.WaitGroup
	listening.Go(func() {
		defer close(signals)
		err := listen(conn, job, signals)
		if !call.run.hasExited() {
			cancel(err)
			call.release()
		}
	})
	// a server that is told to end does not wait for a peer's streams
	stopped := context.AfterFunc(s.ctx, call.release)
	s.options.Call(ctx, call)
	stopped()
	call.exit(client.ExitRefused) // if nobody has said anything
	call.release()
	listening.Wait()
}

// namesItself says whether a command line has a path that leads to the process
// which opens it: a descriptor, as of <(…) in a shell, or what is in /proc. Here
// it would lead to something of ours. Arguments behind "--" are the program's.
func namesItself(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		for _, own := range []string{"/dev/fd", "/dev/std", "/proc/self", "/proc/thread-self"} {
			if strings.Contains(arg, own) {
				return true
			}
		}
	}
	return false
}

// onceWith is sync.OnceFunc with an argument.
func onceWith(f func(int)) func(int) {
	var once sync.Once
	return func(n int) { once.Do(func() { f(n) }) }
}

// release lets go of the streams: who reads or writes them gets an error.
func (c *Call) release() {
	for _, f := range c.Files {
		f.Close()
	}
	if c.Tools != nil {
		c.Tools.Close()
	}
}

// refer tells the process outside to do its work itself.
func refer(conn *net.UnixConn) {
	_, _ = conn.Write([]byte{client.DoorCold, 0})
}

// listen hands signals on until the process outside is gone. What nobody takes
// is dropped: signals of a kind are not counted.
func listen(conn *net.UnixConn, j *job, to chan<- syscall.Signal) error {
	var b [16]byte
	for {
		n, err := conn.Read(b[:])
		if err != nil {
			return errGone
		}
		for _, sig := range b[:n] {
			if j.heard(syscall.Signal(sig)) {
				continue
			}
			select {
			case to <- syscall.Signal(sig):
			default:
			}
		}
	}
}

// readFrame reads the rest of a frame of which the beginning is there.
func readFrame(conn io.Reader, first []byte) ([]byte, error) {
	for len(first) < client.DoorHeader {
		more := make([]byte, client.DoorHeader-len(first))
		n, err := conn.Read(more)
		if err != nil {
			return nil, fmt.Errorf("cannot read frame: %w", err)
		}
		first = append(first, more[:n]...)
	}
	if !bytes.HasPrefix(first, []byte(client.DoorMagic)) {
		return nil, errors.New("cannot read frame: it does not begin as one")
	}
	size := binary.LittleEndian.Uint32(first[len(client.DoorMagic):])
	body := first[client.DoorHeader:]
	if size > client.DoorMax || len(body) > int(size) {
		return nil, errors.New("cannot read frame: its size is wrong")
	}
	have := len(body)
	body = append(make([]byte, 0, size), body...)[:size]
	if _, err := io.ReadFull(conn, body[have:]); err != nil {
		return nil, fmt.Errorf("cannot read frame: %w", err)
	}
	return body, nil
}

// decodeCall reads the body of a frame. On success the files are the call's.
func decodeCall(body []byte, files []*os.File) (*Call, error) {
	const counts = 3 * 4
	if len(body) < counts+1 || body[len(body)-1] != 0 {
		return nil, errors.New("cannot read call: it is cut off")
	}
	var n [3]int
	for i := range n {
		n[i] = int(binary.LittleEndian.Uint32(body[4*i:]))
	}
	parts := strings.Split(string(body[counts:len(body)-1]), "\x00")
	args, env, fds := n[0], n[1], n[2]
	if args < 1 || args > len(parts) || env > len(parts) || fds != len(files) || len(parts) != 1+args+env+fds {
		return nil, errors.New("cannot read call: its parts do not add up")
	}
	c := &Call{Dir: parts[0], Args: parts[1 : 1+args], Env: map[string]string{}, Files: map[int]*Stdio{}}
	for _, kv := range parts[1+args : 1+args+env] {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, fmt.Errorf("cannot read call: %q is no variable", kv)
		}
		c.Env[name] = value
	}
	if err := c.take(parts[1+args+env:], files); err != nil {
		return nil, err
	}
	return c, nil
}

// toolsFile stands for client.DoorTools among the numbers of descriptors.
const toolsFile = -1

// take gives the files their meaning. They are the call's if it succeeds.
func (c *Call) take(names []string, files []*os.File) error {
	byNumber := map[int]*os.File{}
	for i, name := range names {
		fd := toolsFile
		if name != client.DoorTools {
			n, err := strconv.ParseUint(name, 10, 31)
			if err != nil {
				return fmt.Errorf("cannot read call: %q is no descriptor", name)
			}
			fd = int(n)
		}
		if byNumber[fd] != nil {
			return fmt.Errorf("cannot read call: descriptor %q is there twice", name)
		}
		byNumber[fd] = files[i]
	}
	if byNumber[0] == nil || byNumber[1] == nil || byNumber[2] == nil {
		return errors.New("cannot read call: a stream is missing")
	}
	if f := byNumber[toolsFile]; f != nil {
		conn, err := net.FileConn(f)
		if err != nil {
			return fmt.Errorf("cannot read call: what is for tools is no socket: %w", err)
		}
		unixConn, is := conn.(*net.UnixConn)
		if !is {
			conn.Close()
			return errors.New("cannot read call: what is for tools is no Unix socket")
		}
		c.Tools = unixConn
		f.Close()
		delete(byNumber, toolsFile)
	}
	for fd, f := range byNumber {
		c.Files[fd] = newStdio(f)
	}
	return nil
}
