package mcp

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

const (
	// MaxClients bounds the connections to one socket: one program rarely has
	// more than one client. Those beyond it are closed at once.
	MaxClients = 8
	// MaxRequest bounds one message of a client, in bytes: that of a request
	// file (bridge.DefaultRequestBytes) and its envelope.
	MaxRequest = bridge.DefaultRequestBytes + 4<<10
	// maxInFlight bounds the requests of one connection that are being served.
	maxInFlight = bridge.DefaultMaxPending
	// replyTime is how long a client may take to read an answer.
	replyTime = 10 * time.Second
	// After freeMessages that were no successful calls, a client waits three
	// times as long as its message took, within these bounds: nobody charges
	// it for the host's work. The file bridge has the same brake.
	freeMessages       = 1000
	minPause, maxPause = time.Millisecond, 50 * time.Millisecond
	// acceptPause is the wait after a failure to accept that may pass.
	acceptPause = 100 * time.Millisecond
)

// Serve shows the tools of b to whoever connects to ln and speaks MCP in
// newline-delimited JSON. Every call goes through b.Do. What is too large for an
// answer, and what is not text, goes to files. A client that sends what is no
// message loses its connection and disturbs nobody else. Serve ends with ctx,
// or with an error when ln fails; it closes ln and all connections, and waits
// for what it has begun.
func Serve(ctx context.Context, ln net.Listener, b *bridge.Broker, files bridge.Files) error {
	e, err := newEndpoint(b, files)
	if err != nil {
		ln.Close()
		return err
	}
	return e.serve(ctx, ln)
}

func newEndpoint(b *bridge.Broker, files bridge.Files) (*endpoint, error) {
	list, err := pages(b.Set().Tools())
	return &endpoint{broker: b, files: files, prefix: "mcp-" + rand.Text()[:12] + "-", pages: list}, err
}

// serve accepts clients until ctx ends or ln fails.
func (e *endpoint) serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	defer ln.Close()
	slots := make(chan struct{}, MaxClients)
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("cannot accept a client: %w", err)
		case err != nil:
			// As when there are no descriptors left: that passes.
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		clients.Go(func() {
			e.client(ctx, conn)
			<-slots
		})
	}
}

// endpoint is what the connections share.
type endpoint struct {
	broker *bridge.Broker
	files  bridge.Files
	pages  [][]byte
	prefix string
	vain   atomic.Int64 // messages that were no successful calls

	mu  sync.Mutex
	seq int64
}

// pause is the brake.
func (e *endpoint) pause(ctx context.Context, took time.Duration) {
	if e.vain.Load() <= freeMessages {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(min(max(3*took, minPause), maxPause)):
	}
}

// id is a new id for the broker. The prefix keeps the ids of request files,
// which the program chooses, apart.
func (e *endpoint) id() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	return fmt.Sprintf("%s%d", e.prefix, e.seq)
}

// client is one connection.
type client struct {
	*endpoint
	conn  net.Conn
	close context.CancelFunc

	writing sync.Mutex
	mu      sync.Mutex
	calls   map[string]context.CancelFunc // by the client's id, as written
}

// client serves one connection to its end.
func (e *endpoint) client(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	c := &client{endpoint: e, conn: conn, close: cancel, calls: map[string]context.CancelFunc{}}
	var calls sync.WaitGroup
	defer calls.Wait()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	defer cancel()
	r := bufio.NewReaderSize(conn, 64<<10)
	for ctx.Err() == nil {
		line, err := readLine(r, MaxRequest)
		if err != nil {
			return
		}
		m, ok := decode(line)
		if !ok {
			c.send(errorReply(nil, codeParse, "this is no message; the connection is closed"))
			return
		}
		begun := time.Now()
		c.message(ctx, m, &calls)
		e.pause(ctx, time.Since(begun))
	}
}

// begin notes a call; not if its id is in use or too many are.
func (c *client) begin(id string, cancel context.CancelFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.calls[id] != nil:
		return errors.New("this id is in use")
	case len(c.calls) >= maxInFlight:
		return fmt.Errorf("more than %d requests at once", maxInFlight)
	}
	c.calls[id] = cancel
	return nil
}

func (c *client) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// cancel ends a call that runs.
func (c *client) cancel(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.calls[id]; cancel != nil {
		cancel()
	}
}

// send writes one message. A client that does not read loses its connection.
func (c *client) send(message []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.conn.SetWriteDeadline(time.Now().Add(replyTime))
	if err == nil {
		_, err = c.conn.Write(append(message, '\n'))
	}
	if err != nil {
		c.close()
	}
}
