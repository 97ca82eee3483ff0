package mcp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/procgroup"
)

const (
	// endTime is how long a server may take to end once its input has, and
	// again once it was told to terminate.
	endTime = time.Second
	// stderrBytes of the end of a server's standard error are kept.
	stderrBytes = 4 << 10
)

// process is a server that was started.
type process struct {
	group  *procgroup.Group
	conn   *lineConn
	stderr *tail
	read   chan struct{} // closed when standard error has been read
	errors *os.File
}

func (c Command) start() (*process, error) {
	file, err := procgroup.Find(c.Path, c.Dir, c.Env)
	if err != nil {
		return nil, err
	}
	var ours, theirs [3]*os.File
	closeAll := func(files [3]*os.File) error {
		var all error
		for _, f := range files {
			if f != nil {
				all = errors.Join(all, f.Close())
			}
		}
		return all
	}
	for i := range ours {
		if ours[i], theirs[i], err = os.Pipe(); err != nil {
			_, _ = closeAll(ours), closeAll(theirs)
			return nil, fmt.Errorf("cannot make a pipe: %w", err)
		}
	}
	ours[0], theirs[0] = theirs[0], ours[0]
	group, err := procgroup.Start(procgroup.Command{
		Path: file, Args: c.Args, Dir: c.Dir, Env: c.Env, Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
	})
	_ = closeAll(theirs)
	if err != nil {
		_ = closeAll(ours)
		return nil, err
	}
	p := &process{group: group, stderr: &tail{}, read: make(chan struct{}), errors: ours[2]}
	p.conn = newLineConn(ours[1], ours[0], func() error { return closeAll([3]*os.File{ours[0], ours[1]}) })
	go func() {
		defer close(p.read)
		_, _ = io.Copy(p.stderr, ours[2])
	}()
	return p, nil
}

// end ends the server: its input has been closed; then it is told, then killed.
func (p *process) end() {
	_ = p.conn.Close()
	for _, sig := range []unix.Signal{0, unix.SIGTERM, unix.SIGKILL} {
		if sig != 0 {
			p.group.Signal(sig)
		}
		if sig == unix.SIGKILL {
			break
		}
		select {
		case <-p.group.Done():
		case <-time.After(endTime):
			continue
		}
		break
	}
	<-p.group.Done()
	// A process that left the group may hold the pipe.
	_ = p.errors.SetReadDeadline(time.Now().Add(endTime / 10))
	<-p.read
	p.errors.Close()
}

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	bytes []byte
}

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p[max(0, len(p)-stderrBytes):]...)
	if more := len(t.bytes) - stderrBytes; more > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[more:]...)
	}
	return len(p), nil
}

// said is what stands in it, as a part of an error's text.
func (t *tail) said() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.bytes) == 0 {
		return ""
	}
	return "; on its standard error: " + strings.ToValidUTF8(string(t.bytes), "\uFFFD")
}
