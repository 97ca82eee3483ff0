package loan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

// Lender lends one bridge over one connection. The connection is the caller's,
// who closes it to give up.
type Lender struct {
	Conn *net.UnixConn
	// Quiet keeps the program's output from a terminal until open is called.
	// Nil means that nothing does.
	Quiet func() (open func())

	at      bridge.Site
	ready   chan error // one value
	first   sync.Once
	socket  bool
	about   json.RawMessage
	working sync.WaitGroup // answers being made
	room    chan struct{}  // one token each
	done    chan struct{}  // closed when nothing more is read
	ended   *bridge.Summary
	fail    error

	writing sync.Mutex
	mu      sync.Mutex
	held    map[int64]func()
}

// ErrGone means that the other side has ended.
var ErrGone = errors.New("the process that has the tools has gone away")

// Lend offers the bridge and waits until it is served, or until ctx ends.
func (l *Lender) Lend(ctx context.Context, b bridge.Site) (Ready, error) {
	l.at = b
	l.ready, l.done = make(chan error, 1), make(chan struct{})
	l.held, l.room = map[int64]func(){}, make(chan struct{}, maxHeld)
	text, err := json.Marshal(offer{Owner: b.Owner, Journal: b.Journal != nil})
	if err == nil {
		_, _, err = l.Conn.WriteMsgUnix(append(text, '\n'), syscall.UnixRights(int(b.Root.Fd()), int(b.Workspace.Fd())), nil)
	}
	go l.listen()
	if err != nil {
		return Ready{}, fmt.Errorf("cannot lend the tool bridge: %w", err)
	}
	select {
	case err = <-l.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return Ready{}, fmt.Errorf("cannot serve tools: %w", err)
	}
	return Ready{Socket: l.socket, About: l.about}, nil
}

// listen does what the borrower asks for until it has ended.
func (l *Lender) listen() {
	defer close(l.done)
	in := newLines(l.Conn)
	for {
		var w word
		if err := in.next(&w); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
				err = ErrGone
			}
			l.fail = err
			break
		}
		if w.Ended != nil {
			if l.fail = w.Ended.Check(); l.fail == nil {
				l.ended = w.Ended
			}
			break
		}
		l.take(w)
	}
	l.begun(cmp.Or(l.fail, ErrGone)) // if it never said that it serves
	l.working.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, release := range l.held { // who has ended asks nobody any more
		delete(l.held, id)
		release()
	}
}

func (l *Lender) begun(err error) { l.first.Do(func() { l.ready <- err }) }

// take does one thing. What may take time is done beside.
func (l *Lender) take(w word) {
	switch {
	case w.Ready != nil:
		l.first.Do(func() {
			l.socket, l.about = w.Ready.Socket, w.Ready.About
			l.ready <- nil
		})
	case w.Failed != "":
		l.begun(errors.New(w.Failed))
	case w.Release != 0:
		l.release(w.Release)
		l.say(answer{ID: w.ID})
	default:
		l.room <- struct{}{}
		l.working.Go(func() {
			defer func() { <-l.room }()
			a := answer{ID: w.ID}
			if err := l.act(w); err != nil {
				a.Error = err.Error()
			}
			l.say(a)
		})
	}
}

func (l *Lender) act(w word) error {
	switch {
	case w.Accepted != nil && l.at.Journal != nil:
		return journaled(l.at.Journal.Accepted, w.Accepted)
	case w.Finished != nil && l.at.Journal != nil:
		return journaled(l.at.Journal.Finished, w.Finished)
	case w.Hold == Clock && l.at.Hold != nil:
		return l.keep(w.ID, l.at.Hold)
	case w.Hold == Terminal && l.Quiet != nil:
		return l.keep(w.ID, l.Quiet)
	case w.Hold == Clock || w.Hold == Terminal:
		return nil
	}
	return errors.New("cannot understand what the other side asks for")
}

// journaled records a call, if it is one.
func journaled(write func(bridge.Record) error, r *record) error {
	if err := r.Check(); err != nil {
		return err
	}
	return write(r.whole())
}

// keep holds something under a number.
func (l *Lender) keep(id int64, hold func() func()) error {
	release := hold()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[id] != nil || len(l.held) >= maxHeld {
		defer release()
		return errors.New("cannot hold more, or the same again")
	}
	l.held[id] = release
	return nil
}

func (l *Lender) release(id int64) {
	l.mu.Lock()
	release := l.held[id]
	delete(l.held, id)
	l.mu.Unlock()
	if release != nil {
		release()
	}
}

// say answers. That it cannot be said is met again by listen.
func (l *Lender) say(a answer) {
	text, err := json.Marshal(a)
	if err != nil {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.Conn.Write(append(text, '\n'))
}

// End ends the service and says what became of the calls. Nothing of the
// bridge is used after it.
func (l *Lender) End() (bridge.Summary, error) {
	_ = l.Conn.SetDeadline(time.Now().Add(endTime))
	l.say(answer{End: true})
	<-l.done
	if l.ended == nil {
		return bridge.Summary{}, fmt.Errorf("cannot say what became of the tool calls: %w", l.fail)
	}
	return *l.ended, nil
}
