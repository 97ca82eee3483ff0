package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/isolate-run/isolate/bridge"
)

const (
	// ConnectTime bounds a connection, the first list of tools included. It is
	// long because a server may be fetched by its package manager first.
	ConnectTime = 60 * time.Second
	// againTime bounds a second attempt with the other handshake.
	againTime = 5 * time.Second
	// A server that has gone is tried again by the next call, but not before
	// retryMin after the last attempt, doubled each time up to retryMax.
	retryMin = 100 * time.Millisecond
	retryMax = 30 * time.Second
)

// handshake is the version of the protocol that is tried first: the newest
// that begins with initialize, which every server knows. Some never answer the
// request with which the later ones begin.
const handshake = "2025-11-25"

// Server is a server of the host that is in use. It is safe for concurrent use.
type Server struct {
	config Config
	tools  []bridge.Tool
	prints map[string]string // by the server's name: what the tool was at Open

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	turn chan struct{} // to connect
	mu   sync.Mutex
	now  *session // nil when there is none
	wait time.Duration
	next time.Time // no attempt before
}

// session is one connection to a server.
type session struct {
	*sdk.ClientSession
	// changed are tools that are not what they were at Open.
	changed map[string]bool
	gone    chan struct{} // closed when the connection has ended
	release func()        // frees what is below it
	line    *lineConn     // nil for HTTP
	process *process      // nil if it was not started by us
	ended   sync.Once
}

// Open connects to a server and lists its tools. The context bounds only that.
// Close ends the server. A server that dies is connected to, or started, again
// by the next call; a call during which it died is not repeated.
func Open(ctx context.Context, c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Server{config: c, turn: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("cannot use MCP server %q: %w", c.Name, err)
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	now, err := s.config.connect(ctx)
	if err != nil {
		return err
	}
	s.now = now
	list, err := list(ctx, now)
	if err != nil {
		return errors.Join(s.config.hide(err), now.reason())
	}
	s.tools, s.prints, err = s.admit(list)
	return err
}

// Tools are the admitted tools. They do not change while the server is in use.
func (s *Server) Tools() []bridge.Tool { return s.tools }

// Close ends the calls and the server. It is idempotent.
func (s *Server) Close() error {
	s.cancel()
	s.turn <- struct{}{} // nobody is connecting
	defer func() { <-s.turn }()
	s.mu.Lock()
	now := s.now
	s.now = nil
	s.mu.Unlock()
	if now != nil {
		now.end()
	}
	return nil
}

// current is the session in use, or a new one.
func (s *Server) current(ctx context.Context) (*session, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.ctx.Err() != nil {
		return nil, errors.New("the server was closed")
	}
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	if now != nil && !now.isGone() {
		return now, nil
	}
	if now != nil {
		now.end()
	}
	if left := time.Until(s.next); left > 0 {
		return nil, fmt.Errorf("the server has gone and is tried again in %v at the earliest", left.Round(time.Millisecond))
	}
	now, err := s.again(ctx)
	s.mu.Lock()
	s.now = now
	s.mu.Unlock()
	if err != nil {
		s.wait = min(max(2*s.wait, retryMin), retryMax)
		s.next = time.Now().Add(s.wait)
		return nil, err
	}
	// A server that dies again at once is not started as fast as it dies.
	s.wait = retryMin
	s.next = time.Now().Add(s.wait)
	return now, nil
}

// again connects once more and compares the tools with what they were: they
// were judged, and perhaps approved, as they were at Open.
func (s *Server) again(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, ConnectTime)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	now, err := s.config.connect(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := list(ctx, now)
	if err != nil {
		now.end()
		return nil, s.config.hide(err)
	}
	seen := map[string]string{}
	for _, t := range tools {
		seen[t.Name] = fingerprint(t)
	}
	for name, print := range s.prints {
		if seen[name] != print {
			now.changed[name] = true
		}
	}
	return now, nil
}

// connect makes a session. If a server refuses the common handshake, the newest
// one is tried on a connection of its own. Over HTTP there are more ways to
// refuse than can be told apart.
func (c Config) connect(ctx context.Context) (*session, error) {
	s, err := c.connectAs(ctx, handshake)
	if err == nil || ctx.Err() != nil || c.URL == "" && !refused(err) {
		return s, err
	}
	// A server that has answered once is awake, and says nothing at all if it
	// does not know the other beginning. Its first word is then its reason.
	ctx, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	if s, second := c.connectAs(ctx, ""); second == nil {
		return s, nil
	}
	return nil, err
}

func (c Config) connectAs(ctx context.Context, version string) (*session, error) {
	s := &session{changed: map[string]bool{}, gone: make(chan struct{}), release: func() {}}
	transport, err := c.transport(ctx, s)
	if err != nil {
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "isolate", Version: "1"}, &sdk.ClientOptions{
		Capabilities:   &sdk.ClientCapabilities{},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	s.ClientSession, err = client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		why := s.unconnected(ctx, c.hide(err))
		close(s.gone)
		s.end()
		return nil, errors.Join(why, s.reason())
	}
	go func() {
		defer close(s.gone)
		_ = s.Wait()
	}()
	return s, nil
}

// unconnected says why there is no session: a server that was started and has
// ended, or that says nothing, is mostly no MCP server at all.
func (s *session) unconnected(ctx context.Context, err error) error {
	if s.process != nil {
		select {
		case <-s.process.group.Done():
			state, waitErr := s.process.group.Wait()
			if waitErr == nil {
				return fmt.Errorf("the command ended at once (%v), before it spoke MCP: %w", state, err)
			}
		case <-time.After(endTime / 10):
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer in time; is it an MCP server? %w", err)
	}
	return fmt.Errorf("cannot connect: %w", err)
}

// transport opens what the session runs over and notes how to free it.
func (c Config) transport(ctx context.Context, s *session) (sdk.Transport, error) {
	switch {
	case c.Command != nil:
		p, err := c.Command.start()
		if err != nil {
			return nil, err
		}
		s.process, s.line, s.release = p, p.conn, p.end
		return p.conn, nil
	case c.Socket != "":
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", c.Socket)
		if err != nil {
			return nil, fmt.Errorf("cannot connect: %w", err)
		}
		s.line = newLineConn(conn, conn, conn.Close)
		s.release = func() { _ = s.line.Close() }
		return s.line, nil
	}
	t, release := c.httpTransport()
	s.release = release
	return t, nil
}

// isGone says whether no call can be made any more.
func (s *session) isGone() bool {
	if s.line != nil && s.line.broken.Load() {
		return true
	}
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// end ends the session and what is below it. It is idempotent.
func (s *session) end() {
	s.ended.Do(func() {
		if s.line != nil {
			_ = s.line.Close() // else the SDK waits for answers that nobody reads
		}
		if s.ClientSession != nil {
			_ = s.ClientSession.Close()
		}
		s.release()
		<-s.gone
	})
}

// reason is what the server said on its standard error, or nil.
func (s *session) reason() error {
	if s.process == nil {
		return nil
	}
	// It may just be writing why it ends.
	select {
	case <-s.process.read:
	case <-time.After(endTime / 10):
	}
	if text := s.process.stderr.said(); text != "" {
		return errors.New(text[2:])
	}
	return nil
}
