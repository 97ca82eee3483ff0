package loan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/dirfd"
)

// Borrower is the side that has the tools.
type Borrower struct {
	// Root, Workspace and Owner are those of bridge.Site. Root and Workspace are
	// closed by Return.
	Root, Workspace *os.File
	Owner           dirfd.Owner

	conn    *net.UnixConn
	in      lines
	journal bool

	writing sync.Mutex
	mu      sync.Mutex
	next    int64
	waiting map[int64]chan error // nil: the lender is gone

	over sync.Once
	done chan struct{} // closed by over
	gone chan struct{} // closed when nothing more is read
}

// maxOffer bounds an offer, in bytes.
const maxOffer = 4 << 10

// Borrow waits for the bridge. If it comes, the connection is the Borrower's;
// Return and Close follow.
func Borrow(conn *net.UnixConn) (*Borrower, error) {
	data, control := make([]byte, maxOffer), make([]byte, unix.CmsgSpace(2*4))
	n, nc, flags, _, err := conn.ReadMsgUnix(data, control)
	if errors.Is(err, io.EOF) {
		err = ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("cannot borrow the tool bridge: %w", err)
	}
	files := received(control[:nc])
	text, rest, whole := bytes.Cut(data[:n], []byte("\n"))
	var o offer
	if json.Unmarshal(text, &o) != nil || len(files) != 2 || flags&unix.MSG_CTRUNC != 0 || !whole || len(rest) > 0 {
		for _, f := range files {
			f.Close()
		}
		return nil, errors.New("cannot borrow the tool bridge: the offer is not whole")
	}
	b := &Borrower{
		Root: files[0], Workspace: files[1], Owner: o.Owner,
		conn: conn, in: newLines(conn), journal: o.Journal,
		waiting: map[int64]chan error{}, done: make(chan struct{}), gone: make(chan struct{}),
	}
	go b.listen()
	return b, nil
}

func received(control []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "bridge"))
		}
	}
	return files
}

// listen hands answers on until the lender is gone. That the run is over is no
// end: calls that it cut off are still to be recorded.
func (b *Borrower) listen() {
	defer close(b.gone)
	for {
		var a answer
		err := b.in.next(&a)
		if err != nil || a.End {
			b.over.Do(func() { close(b.done) })
		}
		b.mu.Lock()
		if err != nil {
			for _, w := range b.waiting {
				w <- ErrGone
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		w := b.waiting[a.ID]
		delete(b.waiting, a.ID)
		b.mu.Unlock()
		switch {
		case w == nil:
		case a.Error != "":
			w <- errors.New(a.Error)
		default:
			w <- nil
		}
	}
}

func (b *Borrower) say(w word) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	_, err = b.conn.Write(append(text, '\n'))
	return err
}

// ask says something and waits for the answer.
func (b *Borrower) ask(w word) (id int64, err error) {
	answered := make(chan error, 1)
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return 0, ErrGone
	}
	b.next++
	w.ID = b.next
	b.waiting[w.ID] = answered
	b.mu.Unlock()
	if err := b.say(w); err != nil {
		return 0, err
	}
	return w.ID, <-answered
}

// Serving says that the tools are served.
func (b *Borrower) Serving(r Ready) error { return b.say(word{Ready: &r}) }

// Failed says that they cannot be.
func (b *Borrower) Failed(why error) error { return b.say(word{Failed: why.Error()}) }

// Hold holds something of the lender's until release is called. It returns when
// it is held.
func (b *Borrower) Hold(what Hold) (release func(), err error) {
	id, err := b.ask(word{Hold: what})
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { _, _ = b.ask(word{Release: id}) }), nil
}

// Journal records calls with the lender; nil if it records none.
func (b *Borrower) Journal() bridge.Journal {
	if !b.journal {
		return nil
	}
	return journal{b}
}

type journal struct{ b *Borrower }

var _ bridge.Journal = journal{}

func (j journal) Accepted(r bridge.Record) error {
	_, err := j.b.ask(word{Accepted: &record{r, r.Args}})
	return err
}

func (j journal) Finished(r bridge.Record) error {
	_, err := j.b.ask(word{Finished: &record{r, r.Args}})
	return err
}

// Wait waits until the run is over, or the lender gone.
func (b *Borrower) Wait() { <-b.done }

// Return closes the handles and says what became of the calls; nothing uses the
// bridge any more.
func (b *Borrower) Return(s bridge.Summary) error {
	err := errors.Join(b.Root.Close(), b.Workspace.Close())
	return errors.Join(err, b.say(word{Ended: &s}))
}

// Close gives up: it closes the connection, and the handles if they were not
// returned. It is idempotent.
func (b *Borrower) Close() {
	b.conn.Close()
	b.Root.Close()
	b.Workspace.Close()
	<-b.gone
}
