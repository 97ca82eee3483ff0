package prove

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how long the program waits for the answer of a listener, and of
// the tool. Where nothing listens the kernel says so at once.
const (
	patience     = 300 * time.Millisecond
	toolPatience = 20 * time.Second
)

// Attempt is the program: it reads what to try, tries it, and writes what came
// of it. The error says that it could not do that.
func Attempt(in io.Reader, out io.Writer) error {
	var list []attempt
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return fmt.Errorf("cannot read what to attempt: %w", err)
	}
	var reached bool
	outcomes := make([]outcome, 0, len(list))
	for _, a := range list {
		o := outcome{Name: a.Name, Skipped: true}
		if !a.Away || !reached {
			o = a.try()
			o.Name = a.Name
		}
		reached = reached || o.got() && a.Token != "" && a.Deed != callTool
		outcomes = append(outcomes, o)
	}
	return json.NewEncoder(out).Encode(outcomes)
}

// query is what datagrams hold: a DNS query for the addresses of the root.
const query = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + "\x00\x00\x01\x00\x01"

// came is the outcome of a system call.
func came(call string, err error) outcome {
	o := outcome{Call: call}
	var e unix.Errno
	switch {
	case errors.As(err, &e):
		o.Errno = unix.ErrnoName(e)
	case err != nil:
		o.Errno = err.Error()
	}
	return o
}

func (a attempt) try() outcome {
	switch a.Deed {
	case callTool:
		return a.tool()
	case systemCall:
		return a.sideDoor()
	}
	fd, err := unix.Socket(a.Family, a.Type|unix.SOCK_CLOEXEC, a.Protocol)
	if err != nil || a.Deed == makeSocket {
		if err == nil {
			unix.Close(fd)
		}
		return came("socket", err)
	}
	defer unix.Close(fd)
	to, err := a.address()
	if err != nil {
		return outcome{Errno: err.Error()}
	}
	switch a.Deed {
	case sendTo:
		return came("sendto", unix.Sendto(fd, []byte(query), 0, to))
	case sendMsg:
		return came("sendmsg", unix.Sendmsg(fd, []byte(query), nil, to, 0))
	}
	limit := unix.NsecToTimeval(int64(patience))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit) // of connect, too
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	if err := unix.Connect(fd, to); err != nil {
		return came("connect", err)
	}
	return a.talk(fd)
}

// talk says the token and waits for it.
func (a attempt) talk(fd int) outcome {
	if _, err := unix.Write(fd, []byte(a.Token)); err != nil {
		return came("write", err)
	}
	b := make([]byte, 2*len(a.Token)+1)
	n, err := unix.Read(fd, b)
	if a.Deed == connectTo {
		// it is connected: with whom, and what is said then, is no matter
		return outcome{Call: "connect", Answered: err == nil && string(b[:n]) == a.Token}
	}
	if err == nil && string(b[:n]) != a.Token {
		err = errors.New("another answer")
	}
	o := came("read", err)
	o.Answered = err == nil
	return o
}

func (a attempt) address() (unix.Sockaddr, error) {
	if strings.HasPrefix(a.To, "@") {
		return &unix.SockaddrUnix{Name: a.To}, nil
	}
	to, err := netip.ParseAddrPort(a.To)
	if err != nil {
		return nil, err
	}
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}, nil
	}
	return &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}, nil
}

// sideDoor makes a system call that changes nothing, should it succeed, but in
// this process.
func (a attempt) sideDoor() outcome {
	var err error
	switch a.Call {
	case "io_uring_setup":
		params := make([]byte, 120) // struct io_uring_params
		fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])), 0)
		if errno != 0 {
			err = errno
		} else {
			unix.Close(int(fd))
		}
	case "unshare":
		err = unix.Unshare(unix.CLONE_NEWNET)
	case "mount":
		// on a directory that cannot be: who may mount is told that
		err = unix.Mount("none", "/proc/self/fd/-1", "tmpfs", 0, "")
	default:
		return outcome{Call: a.Call, Errno: "unknown attempt"}
	}
	return came(a.Call, err)
}

// Where the tool bridge is, in a sandbox.
const bridgeDir = "/workspace/_rpc"

// tool calls the tool that gives the token back.
func (a attempt) tool() outcome {
	id := "prove"
	request, err := json.Marshal(map[string]any{"tool": toolName, "args": map[string]string{"token": a.Token}})
	if err != nil {
		return came("tool", err)
	}
	passing := filepath.Join(bridgeDir, "req", ".tmp-"+id)
	if err := os.WriteFile(passing, request, 0o644); err != nil {
		return came("open", err)
	}
	if err := os.Rename(passing, filepath.Join(bridgeDir, "req", "req_"+id+".json")); err != nil {
		return came("rename", err)
	}
	answer := filepath.Join(bridgeDir, "resp", "resp_"+id)
	for end := time.Now().Add(toolPatience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(answer + ".done"); err == nil {
			break
		}
		if time.Now().After(end) {
			return outcome{Call: "tool", Errno: "no answer"}
		}
	}
	b, err := os.ReadFile(answer + ".json")
	if err != nil {
		return came("open", err)
	}
	var reply struct {
		Status string `json:"status"`
		Result struct {
			Token string `json:"token"`
		} `json:"result"`
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		return outcome{Call: "tool", Errno: "an answer that is none"}
	}
	if reply.Status != "ok" || reply.Result.Token != a.Token {
		return outcome{Call: "tool", Errno: "another answer"}
	}
	return outcome{Call: "tool", Answered: true}
}
