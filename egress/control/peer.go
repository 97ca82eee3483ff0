package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// Peer is the process's end of the conversation. It is safe for concurrent use.
type Peer struct {
	conn io.ReadWriter
	in   *bufio.Reader

	write   sync.Mutex
	seq     uint64
	noted   []byte // what is not handed over yet
	later   *time.Timer
	waiting sync.Mutex
	acks    map[uint64]chan error
	over    error
}

// NewPeer speaks over a socket.
func NewPeer(conn io.ReadWriter) *Peer {
	return &Peer{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), acks: map[uint64]chan error{}}
}

// Config waits for the first message.
func (p *Peer) Config() (Config, error) {
	m, err := p.receive()
	if err == nil && m.Config == nil {
		err = errors.New("the first message is no configuration")
	}
	if err != nil {
		return Config{}, err
	}
	return *m.Config, nil
}

// receive reads a message. What it does not know it refuses: after half an
// update the supervisor may be of another build, and a condition of a rule that
// is passed over here would be one that does not hold.
func (p *Peer) receive() (ToProcess, error) {
	var m ToProcess
	b, err := readLine(p.in)
	if err != nil {
		return m, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("cannot read message: %w: isolate and isolate-netd must be of one build", err)
	}
	return m, nil
}

// send hands a message over, and what was noted before it; p.write is held.
func (p *Peer) send(m ToSupervisor) error {
	if err := p.note(m); err != nil {
		return err
	}
	return p.flush()
}

func (p *Peer) note(m ToSupervisor) error {
	b, err := line(m)
	p.noted = append(p.noted, b...)
	return err
}

func (p *Peer) flush() error {
	_, err := p.conn.Write(p.noted)
	p.noted = p.noted[:0]
	return err
}

// Flush hands over what was noted.
func (p *Peer) Flush() {
	p.write.Lock()
	defer p.write.Unlock()
	if len(p.noted) > 0 {
		_ = p.flush()
	}
}

// What nobody waits for is handed over with the next message, or when it has
// waited for noteFor, or is noteMost bytes: the end of a connection would
// otherwise wake the supervisor while the next one begins.
const (
	noteFor  = time.Millisecond
	noteMost = 32 << 10
)

// Ready tells that the process is confined.
func (p *Peer) Ready(r Ready) error {
	p.write.Lock()
	defer p.write.Unlock()
	return p.send(ToSupervisor{Ready: &r})
}

// Fail tells why the process ends.
func (p *Peer) Fail(err error) {
	p.write.Lock()
	defer p.write.Unlock()
	_ = p.send(ToSupervisor{Err: err.Error()})
}

// Serve hands policies to begin until the supervisor closes its end.
func (p *Peer) Serve(begin func(Begin) error) error {
	// not in the reading loop: a change records, and waits for the answer
	// that is read here, behind more changes maybe
	c := changes{some: make(chan struct{}, 1)}
	defer close(c.some)
	go c.each(func(b Begin) { p.begin(b, begin) })
	for {
		m, err := p.receive()
		if err != nil {
			p.release(errors.New("the supervisor is gone"))
			return err
		}
		switch {
		case m.Ack != nil:
			var err error
			if m.Ack.Err != "" {
				err = errors.New(m.Ack.Err)
			}
			p.waiting.Lock()
			if c := p.acks[m.Ack.Seq]; c != nil {
				c <- err
				delete(p.acks, m.Ack.Seq)
			}
			p.waiting.Unlock()
		case m.Begin != nil:
			c.add(*m.Begin)
		}
	}
}

// changes are policies that wait for their turn. The supervisor waits for the
// answer to each, so that there are few.
type changes struct {
	mu   sync.Mutex
	list []Begin
	some chan struct{} // has one if the list may be filled
}

func (c *changes) add(b Begin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, b)
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// each does them in their order, until some is closed.
func (c *changes) each(do func(Begin)) {
	for range c.some {
		c.mu.Lock()
		list := c.list
		c.list = nil
		c.mu.Unlock()
		for _, b := range list {
			do(b)
		}
	}
}

func (p *Peer) begin(b Begin, begin func(Begin) error) {
	c := Changed{Number: b.Number}
	if err := begin(b); err != nil {
		c.Err = err.Error()
	}
	p.write.Lock()
	defer p.write.Unlock()
	_ = p.send(ToSupervisor{Changed: &c})
}

// release ends all waiting for answers.
func (p *Peer) release(err error) {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.over = err
	for s, c := range p.acks {
		c <- err
		delete(p.acks, s)
	}
}

// Note hands an event over soon, without waiting for it to be durable.
func (p *Peer) Note(e egress.Event) { _ = p.event(e, nil) }

// Durable hands an event over. What it returns waits until it is durable.
func (p *Peer) Durable(e egress.Event) (wait func() error) {
	ack := make(chan error, 1)
	if err := p.event(e, ack); err != nil {
		return func() error { return err }
	}
	return func() error { return <-ack }
}

func (p *Peer) event(e egress.Event, ack chan error) error {
	p.write.Lock()
	defer p.write.Unlock()
	p.seq++
	e.Seq = p.seq
	if ack != nil {
		p.waiting.Lock()
		if p.over != nil {
			p.waiting.Unlock()
			return p.over
		}
		p.acks[e.Seq] = ack
		p.waiting.Unlock()
	}
	if ack != nil {
		return p.send(ToSupervisor{Event: &e, Durable: true})
	}
	switch {
	case p.later == nil:
		p.later = time.AfterFunc(noteFor, p.Flush)
	case len(p.noted) == 0:
		p.later.Reset(noteFor)
	}
	if err := p.note(ToSupervisor{Event: &e}); err != nil || len(p.noted) < noteMost {
		return err
	}
	return p.flush()
}
