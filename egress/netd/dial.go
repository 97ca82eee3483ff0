package netd

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stream is a TCP connection that was made without package net, whose way to one
// has twice the system calls, each seen by the scheduler, and a goroutine.
type stream struct {
	*os.File
	raw syscall.RawConn
	to  netip.AddrPort
}

// What package net sets for a connection: to be asked after 15 s of silence if it
// still is one, every 15 s, nine times.
var streamOptions = []struct{ level, name, value int }{
	{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
	{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
	{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
}

// dialTCP connects to an address.
func dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	family, at := socketAddress(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket: %w", err)
	}
	for _, o := range streamOptions {
		value := int32(o.value)
		if _, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(o.level), uintptr(o.name), uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0); errno != 0 {
			unix.Close(fd)
			return nil, fmt.Errorf("cannot set up a socket: %w", errno)
		}
	}
	errno := connect(fd, at)
	s := stream{File: os.NewFile(uintptr(fd), "connection"), to: to}
	s.raw, err = s.SyscallConn()
	if err == nil && errno == unix.EINPROGRESS {
		err = s.connected(ctx, at)
	} else if errno != 0 {
		err = errno
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot connect to %s: %w", to, err)
	}
	return s, nil
}

// connected waits until the connection is made.
func (s stream) connected(ctx context.Context, at []byte) error {
	var errno unix.Errno
	again := func(fd uintptr) bool { // as often as asked, connect says how far it is
		errno = connect(int(fd), at)
		return errno != unix.EALREADY
	}
	if err := s.raw.Control(func(fd uintptr) { again(fd) }); err != nil {
		return err
	}
	if errno == unix.EALREADY {
		deadline, _ := ctx.Deadline()
		_ = s.SetWriteDeadline(deadline)
		stop := context.AfterFunc(ctx, func() { _ = s.SetWriteDeadline(time.Unix(1, 0)) })
		err := s.raw.Write(again)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		_ = s.SetWriteDeadline(time.Time{})
	}
	if errno != 0 && errno != unix.EISCONN {
		return errno
	}
	return nil
}

// connect does not wait: the socket does not block.
func connect(fd int, at []byte) unix.Errno {
	for {
		if _, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&at[0])), uintptr(len(at))); errno != unix.EINTR {
			return errno
		}
	}
}

// socketAddress is an address as the kernel has it: struct sockaddr_in and
// sockaddr_in6.
func socketAddress(to netip.AddrPort) (family int, b []byte) {
	if a := to.Addr().Unmap(); a.Is4() {
		b = make([]byte, unix.SizeofSockaddrInet4)
		family = unix.AF_INET
		copy(b[4:], a.AsSlice())
	} else {
		b = make([]byte, unix.SizeofSockaddrInet6)
		family = unix.AF_INET6
		copy(b[8:], a.AsSlice())
	}
	binary.NativeEndian.PutUint16(b, uint16(family))
	binary.BigEndian.PutUint16(b[2:], to.Port())
	return family, b
}

// LocalAddr is not known: nobody asks for it.
func (s stream) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is whom it was made to.
func (s stream) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.to) }

// CloseWrite ends one direction.
func (s stream) CloseWrite() error {
	return s.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetLinger says what the end looks like to the other side.
func (s stream) SetLinger(seconds int) error {
	l := unix.Linger{Linger: int32(max(0, seconds))}
	if seconds >= 0 {
		l.Onoff = 1
	}
	return s.control(func(fd int) error { return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l) })
}

func (s stream) control(f func(fd int) error) (err error) {
	if cerr := s.raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}
