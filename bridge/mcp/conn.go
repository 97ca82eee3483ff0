package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/internal/plaintext"
)

const (
	// maxMessage bounds one message of a server, in bytes: as much as a command
	// may print (command.DefaultOutputBytes).
	maxMessage = 32 << 20
	// maxNoise bounds the lines of a server that are no messages. Some print a
	// greeting before they speak.
	maxNoise = 1000
	// maxAsked bounds the requests of a server that have no answer yet. Of them
	// only ping has any other than no; the SDK queues them without a bound.
	maxAsked = 16
	// writeTime bounds the writing of one message to a server that does not
	// read.
	writeTime = 30 * time.Second
)

// lineConn is a connection to a server that speaks newline-delimited JSON. The
// SDK's own has no limit in time on writing and reads numbers as float64.
type lineConn struct {
	r     *bufio.Reader
	w     deadlineWriter
	begun bool // a line has been read
	noise int

	turn  chan struct{} // to write
	once  sync.Once
	close func() error
	err   error
	// broken is set once no message can be read or written any more.
	broken atomic.Bool
	asked  atomic.Int64 // requests of the server that wait for our answer
}

type deadlineWriter interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}

func newLineConn(r io.Reader, w deadlineWriter, closer func() error) *lineConn {
	return &lineConn{r: bufio.NewReaderSize(r, 64<<10), w: w, turn: make(chan struct{}, 1), close: closer}
}

var _ sdk.Connection = (*lineConn)(nil)

// Connect makes lineConn its own Transport.
func (c *lineConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is empty: a stream is its own session.
func (c *lineConn) SessionID() string { return "" }

// Read reads the next message. Close ends it.
func (c *lineConn) Read(context.Context) (jsonrpc.Message, error) {
	m, err := c.read()
	if err != nil {
		c.broken.Store(true)
	}
	return m, err
}

func (c *lineConn) read() (jsonrpc.Message, error) {
	for {
		line, err := readLine(c.r, maxMessage)
		if err != nil {
			return nil, err
		}
		if !c.begun {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		c.begun = true
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] != '{' {
			if c.noise++; c.noise > maxNoise {
				return nil, fmt.Errorf("cannot read from the server: %d lines are no messages", c.noise)
			}
			continue
		}
		m, err := jsonrpc.DecodeMessage(keepNumbers(line))
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && c.asked.Add(1) > maxAsked {
			_ = c.Close() // an answer that the server does not read is given up
			return nil, fmt.Errorf("cannot serve the server: more than %d of its requests wait", maxAsked)
		}
		if r, ok := m.(*jsonrpc.Response); ok {
			err = knownID(r)
		} else if err != nil {
			err = fmt.Errorf("cannot read from the server: %w: %s", err, plaintext.Clean(string(line), shownBytes))
		}
		return m, err
	}
}

// byteOrderMark is what some run times write before their first text.
var byteOrderMark = []byte("\uFEFF")

// knownID refuses an answer to what was never asked. Our requests have numbers:
// an answer with anything else would be waited for as long as for none.
func knownID(r *jsonrpc.Response) error {
	if _, number := r.ID.Raw().(int64); number {
		return nil
	}
	return fmt.Errorf("cannot read from the server: it answers with the id %q, and the requests have numbers: it has to send back the id as it came", r.ID.Raw())
}

// shownBytes of a message that is none are shown.
const shownBytes = 200

// unsentKey is where the context of a call may have an *atomic.Bool, which Write
// sets when the server has seen nothing of the message. The error of the call
// does not tell: that the connection has ended may be noticed first.
type unsentKey struct{}

// Write writes a message. A message that was written in part ends the
// connection: what follows would be no message.
func (c *lineConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if _, answer := m.(*jsonrpc.Response); answer {
		defer c.asked.Add(-1)
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("cannot encode a message: %w", err)
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.w.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("cannot write to the server: %w", err)
	}
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = c.w.SetWriteDeadline(time.Now())
	})
	n, err := c.w.Write(append(data, '\n'))
	if !stop() {
		<-set // else it would hit the next message
	}
	if err != nil {
		if unsent, ok := ctx.Value(unsentKey{}).(*atomic.Bool); ok && n == 0 {
			unsent.Store(true)
		}
		if n > 0 || ctx.Err() == nil {
			_ = c.Close()
		}
		return fmt.Errorf("cannot write to the server: %w", err)
	}
	return nil
}

// Close closes the streams. It is idempotent.
func (c *lineConn) Close() error {
	c.broken.Store(true)
	c.once.Do(func() { c.err = c.close() })
	return c.err
}

var errLong = errors.New("the line is too long")

// readLine reads a line of at most limit bytes, without its end. A last line
// without an end is none: it may have been cut.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit+1 {
			return nil, fmt.Errorf("cannot read a message: %w: more than %d bytes", errLong, limit)
		}
		line = append(line, part...)
		switch err {
		case nil:
			return line[:len(line)-1], nil
		case bufio.ErrBufferFull:
		default:
			return nil, err
		}
	}
}
