package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/egress"
)

// Process is the process that holds a sandbox's network, seen from the
// supervisor. It is safe for concurrent use.
type Process struct {
	// Ready is what it said when it was confined.
	Ready Ready

	cmd    *exec.Cmd
	conn   *os.File
	socket socket // of conn
	stderr tail
	record egress.Recorder

	write sync.Mutex // one message at a time

	mu      sync.Mutex
	summary egress.Summary
	number  uint64
	changed map[uint64]chan string
	stopped bool // by us
	// patience is when a process that was stopped is not listened to any more.
	patience time.Time
	failed   error

	done   chan struct{} // closed when its socket has ended
	reaped chan struct{} // closed when there is no process any more
}

// startTimeout bounds how long the process may take to be ready, on a machine
// with too much to do.
const startTimeout = 30 * time.Second

// maxLine bounds a message, in bytes: a policy with many rules is the longest.
const maxLine = 16 << 20

// Start starts the program helper on a TUN device, which it takes over. Events
// go to record; nil means that only the summary is kept. record is called from one
// goroutine.
func Start(ctx context.Context, helper string, device *os.File, c Config, record egress.Recorder) (*Process, error) {
	defer device.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "network")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("cannot prepare socket pair: %w", err)
	}
	p := &Process{conn: os.NewFile(uintptr(pair[0]), "supervisor"), record: record, changed: map[uint64]chan string{}, done: make(chan struct{}), reaped: make(chan struct{})}
	if p.socket, err = newSocket(p.conn); err != nil {
		p.conn.Close()
		return nil, fmt.Errorf("cannot prepare socket pair: %w", err)
	}
	p.cmd = exec.Command(helper)
	p.cmd.Args = []string{Name}
	p.cmd.Env = []string{}
	p.cmd.Dir = "/"
	p.cmd.ExtraFiles = []*os.File{theirs, device}
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		p.conn.Close()
		return nil, fmt.Errorf("cannot start the network process %q: %w", helper, err)
	}
	theirs.Close()
	if err := p.greet(ctx, c); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.conn.Close()
		if text := p.stderr.String(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	return p, nil
}

// greet sends the configuration and waits until the process is confined.
func (p *Process) greet(ctx context.Context, c Config) error {
	deadline := time.Now().Add(startTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = p.conn.SetDeadline(deadline)
	if err := p.send(ToProcess{Config: &c}); err != nil {
		return err
	}
	in := bufio.NewReaderSize(p.socket, socketRoom)
	m, err := receive(in)
	if err == nil && m.Ready == nil {
		err = errors.New(m.Err)
	}
	if err != nil {
		return fmt.Errorf("cannot start the network process: %w", err)
	}
	_ = p.conn.SetDeadline(time.Time{})
	p.Ready = *m.Ready
	go p.serve(in)
	return nil
}

func (p *Process) send(m ToProcess) error {
	b, err := line(m)
	if err != nil {
		return err
	}
	p.write.Lock()
	defer p.write.Unlock()
	if _, err := p.socket.Write(b); err != nil {
		return fmt.Errorf("cannot speak to the network process: %w", err)
	}
	return nil
}

func receive(in *bufio.Reader) (ToSupervisor, error) {
	var m ToSupervisor
	b, err := readLine(in)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("cannot read message: %w", err)
	}
	return m, nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	var b []byte
	for {
		part, err := in.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case err == bufio.ErrBufferFull && len(b) < maxLine:
		case err != nil:
			return nil, err
		default:
			return b, nil
		}
	}
}

// socketRoom is about what a socket holds, in bytes (net.core.wmem_default): one
// read takes what has come while the last batch was recorded.
const socketRoom = 208 << 10

// maxBatch bounds the events that are recorded together.
const maxBatch = 512

// serve is the only reader of the socket, and records what it reads: handing it
// to another goroutine would wake a thread for each new connection. Meanwhile
// the socket keeps what comes.
func (p *Process) serve(in *bufio.Reader) {
	defer close(p.reaped)
	var batch []ToSupervisor
	var broken error
	for {
		m, err := receive(in)
		if err == nil && m.Event != nil {
			batch = append(batch, m)
			if len(batch) < maxBatch && more(in) {
				continue
			}
		}
		if len(batch) > 0 {
			began := time.Now()
			broken = p.keep(batch, broken)
			batch = batch[:0]
			p.extend(time.Since(began))
		}
		if err != nil {
			p.end(err)
			return
		}
		p.take(m)
	}
}

// extend gives a process that was told to end more time by what its records
// took: a slow disk is not its fault, and what it has said is still to be read.
// Its own time stays bounded, whatever it says.
func (p *Process) extend(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		p.patience = p.patience.Add(took)
		_ = p.conn.SetReadDeadline(p.patience)
	}
}

// more tells whether another whole message has been read already: one write to
// a disk costs as much as many.
func more(in *bufio.Reader) bool {
	b, _ := in.Peek(in.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}

// take takes what is not an event.
func (p *Process) take(m ToSupervisor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.Changed != nil:
		if c := p.changed[m.Changed.Number]; c != nil {
			c <- m.Changed.Err
			delete(p.changed, m.Changed.Number)
		}
	case m.Err != "":
		p.failed = errors.New(m.Err)
	}
}

// keep records events and answers those that have to be durable. A record that
// failed once stays failed: what came after it would have a gap before it.
func (p *Process) keep(batch []ToSupervisor, broken error) error {
	events := make([]egress.Event, len(batch))
	waited := false
	for i, m := range batch {
		events[i] = m.Event.Clean()
		waited = waited || m.Durable
	}
	if broken == nil && p.record != nil {
		if waited {
			broken = p.record.Record(events)
		} else { // or the next connection would wait for the end of the last
			broken = p.record.Later(events)
		}
	}
	p.mu.Lock()
	for _, e := range events {
		p.summary.Add(e)
	}
	if broken != nil && p.summary.Failed == "" {
		p.summary.Failed = "the log cannot be written: " + broken.Error()
	}
	p.mu.Unlock()
	for _, m := range batch {
		if !m.Durable {
			continue
		}
		a := &Ack{Seq: m.Event.Seq}
		if broken != nil {
			a.Err = broken.Error()
		}
		_ = p.send(ToProcess{Ack: a}) // if it is gone, serve sees that
	}
	return broken
}

// end is after the last message. A process that was told to end needs nobody
// to wait for its last breath but Stop.
func (p *Process) end(err error) {
	p.mu.Lock()
	stopped := p.stopped
	if stopped && errors.Is(err, os.ErrDeadlineExceeded) && p.summary.Failed == "" {
		p.summary.Failed = fmt.Sprintf("the network process did not end within %s: its last flows are not known", stopWait)
	}
	for n, c := range p.changed {
		c <- "the network process has ended"
		delete(p.changed, n)
	}
	p.mu.Unlock()
	if stopped {
		close(p.done)
	}
	_ = p.cmd.Process.Kill()
	state := p.cmd.Wait()
	if stopped {
		return
	}
	defer close(p.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = fmt.Errorf("the network process has ended: %w", errors.Join(ignoreEOF(err), state))
	}
	text := p.failed.Error()
	if s := p.stderr.String(); s != "" {
		text += ": " + s
	}
	if p.summary.Failed == "" {
		p.summary.Failed = text
	}
	if p.record != nil {
		_ = p.record.Record([]egress.Event{{Type: egress.EventStop, Time: time.Now(), Verdict: egress.Refuse, Reason: egress.ReasonStopped}})
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Set puts a policy in force whose clocks started at granted, and waits until
// every flow that it no longer allows has been cut.
func (p *Process) Set(ctx context.Context, policy egress.Policy, granted time.Time) error {
	answer := make(chan string, 1)
	p.mu.Lock()
	p.number++
	n := p.number
	p.changed[n] = answer
	p.summary.Mode = policy.Mode.String()
	p.mu.Unlock()
	if err := p.send(ToProcess{Begin: &Begin{Policy: policy, Number: n, Granted: granted}}); err != nil {
		return err
	}
	select {
	case text := <-answer:
		if text != "" {
			return fmt.Errorf("cannot set the network policy: %s", text)
		}
		return nil
	case <-p.done:
		return errors.New("cannot set the network policy: the network process has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Summary is what happened so far.
func (p *Process) Summary() egress.Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.summary
	s.Denials = append([]egress.Denial(nil), s.Denials...)
	s.Names = append([]string(nil), s.Names...)
	return s
}

// Died tells, after Done, whether the process ended without being told to.
func (p *Process) Died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.stopped
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// stopWait is how long a process may take to tell of its last flows, without
// the time that recording them takes.
const stopWait = 2 * time.Second

// Finish ends every flow and returns what happened, when all of it was handed
// to the recorder.
// Stop must follow. It may be called more than once.
func (p *Process) Finish() egress.Summary {
	p.mu.Lock()
	if !p.stopped {
		p.stopped, p.patience = true, time.Now().Add(stopWait)
		_ = p.conn.SetReadDeadline(p.patience)
	}
	p.mu.Unlock()
	if c, err := p.conn.SyscallConn(); err == nil {
		// no more from us; it answers with its last events
		_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	<-p.done
	return p.Summary()
}

// Stop is Finish, and waits until the process is gone. It may be called more
// than once.
func (p *Process) Stop() egress.Summary {
	s := p.Finish()
	<-p.reaped
	p.conn.Close()
	return s
}

// tail keeps the end of what the process writes to standard error: nothing,
// unless it has a fault.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailSize = 2048

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if n := len(t.last); n > tailSize {
		t.last = t.last[n-tailSize:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}
