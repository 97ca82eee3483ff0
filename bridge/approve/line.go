package approve

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxLine bounds one line of an answer, in bytes: edited arguments.
const maxLine = 1 << 20

// forget drops what was typed at a terminal before the question was shown. Of
// a pipe nothing is dropped: whoever writes there knows what is asked.
func (t *Terminal) forget() {
	const input = unix.TCIFLUSH
	if unix.IoctlSetInt(int(t.in.Fd()), unix.TCFLSH, input) == nil {
		t.typed = nil
	}
}

// line reads one line, or what stands before the end of the input. It waits
// by poll, so that nothing is left reading when ctx ends.
func (t *Terminal) line(ctx context.Context) (string, error) {
	var wake [2]int
	if err := unix.Pipe2(wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return "", fmt.Errorf("cannot make a pipe: %w", err)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(wake[1], []byte{0})
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken // the other end is still being written to
		}
		unix.Close(wake[0])
		unix.Close(wake[1])
	}()
	fd := int(t.in.Fd())
	for {
		if i := bytes.IndexByte(t.typed, '\n'); i >= 0 {
			line := string(t.typed[:i])
			t.typed = append([]byte(nil), t.typed[i+1:]...)
			return line, nil
		}
		if len(t.typed) > maxLine {
			t.typed = nil
			return "", fmt.Errorf("cannot read an answer: the line has more than %d bytes", maxLine)
		}
		if err := t.more(ctx, fd, wake[0]); err != nil {
			return "", err
		}
	}
}

// more reads what is there, or waits for it.
func (t *Terminal) more(ctx context.Context, fd, wake int) error {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
		return fmt.Errorf("cannot wait for an answer: %w", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fds[0].Revents == 0 {
		return nil
	}
	buf := make([]byte, 4<<10)
	n, err := unix.Read(fd, buf)
	switch {
	case err == unix.EINTR || err == unix.EAGAIN:
		return nil
	case err != nil:
		return fmt.Errorf("cannot read an answer: %w", err)
	case n == 0 && len(t.typed) == 0:
		return errNobody
	case n == 0:
		t.typed = append(t.typed, '\n') // the last line needs no end
	}
	t.typed = append(t.typed, buf[:n]...)
	return nil
}
