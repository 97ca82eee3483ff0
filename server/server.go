// Package server lets the processes of one user share a Runtime: HTTP with
// JSON and a door for whole command lines, both on one Unix socket.
//
// It accepts, checks who is there, bounds what they may ask for, and hands
// requests to a Runtime and command lines to a function of its caller. It does
// not know what a command line means, decides nothing about policies beyond
// decoding them, and never follows a path that a program inside has made. It
// trusts its peers as far as it trusts its own user, and no further: their
// descriptors may block, and never hold it up.
//
// The socket is worth as much as the user's account: it is 0600 in a directory
// of mode 0700, and each connection's user is asked for (SO_PEERCRED).
//
// It needs Linux: SO_PEERCRED, SCM_RIGHTS, and /proc to compare a peer with
// itself.
package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/isolate-run/isolate"
)

// Options are the settings of a Server. Serve gets its listener.
type Options struct {
	// Runtime runs what is asked for over HTTP. Required.
	Runtime *isolate.Runtime
	// Call carries out a command line that came through the door; see Call.
	// Nil refuses them, and the callers run without the server.
	Call func(context.Context, *Call)
	// Version is what /v1/version says.
	Version string

	// MaxConnections bounds the connections that are open at once. One more takes
	// the place of the oldest that asks for nothing, or waits. Zero means 1024.
	MaxConnections int
	// MaxSandboxes bounds the sandboxes that callers keep over HTTP. Zero
	// means 256.
	MaxSandboxes int
	// KeepRuns is how many runs that have ended are remembered. Zero means 256.
	KeepRuns int
}

// Defaults and fixed bounds.
const (
	defaultMaxConnections = 1024
	defaultMaxSandboxes   = 256
	defaultKeepRuns       = 256
	// greetTime is how long a peer may take to say what it wants.
	greetTime = 10 * time.Second
	// roomTime is how long a connection waits for room before another quiet one
	// is closed.
	roomTime = 50 * time.Millisecond
	// idleTime is how long an HTTP connection may be quiet between requests.
	idleTime = 2 * time.Minute
	// answerTime is how long a draining server waits for readers of answers.
	answerTime = 2 * time.Second
)

// Server serves one Runtime. It is made by New.
type Server struct {
	options Options
	self    self
	http    *http.Server
	feed    *feed
	runs    *runs
	kept    *sandboxes
	began   time.Time

	room  chan struct{} // one token a connection
	quiet *quiet
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup // greetings and calls

	mu       sync.Mutex
	draining bool
	listener net.Listener
}

// New makes a Server. It fails if this process cannot tell what it is itself.
func New(o Options) (*Server, error) {
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.MaxSandboxes == 0 {
		o.MaxSandboxes = defaultMaxSandboxes
	}
	if o.KeepRuns == 0 {
		o.KeepRuns = defaultKeepRuns
	}
	self, err := whoAmI()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, self: self, began: time.Now(), room: make(chan struct{}, o.MaxConnections), quiet: newQuiet()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.runs = newRuns(o.KeepRuns)
	s.kept = newSandboxes(o.MaxSandboxes)
	s.http = s.newHTTP()
	return s, nil
}

// Serve accepts connections until Drain or Close, and then returns nil. It
// owns the listener.
func (s *Server) Serve(l *net.UnixListener) error {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return errors.Join(net.ErrClosed, l.Close())
	}
	s.listener = l
	s.feed = newFeed(l.Addr())
	feed := s.feed
	s.mu.Unlock()

	s.work.Go(func() { _ = s.http.Serve(feed) })
	err := s.accept(l, feed)
	feed.Close()
	if s.isDraining() {
		return nil
	}
	return err
}

func (s *Server) accept(l *net.UnixListener, feed *feed) error {
	pause := time.Duration(0)
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			// no descriptors left, as a rule: others will be given back
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
				continue
			case <-s.ctx.Done():
				return nil
			}
		}
		pause = 0
		if !s.enter() {
			conn.Close()
			return nil
		}
		s.quiet.enter(conn)
		s.work.Go(func() { s.greet(conn, feed) })
	}
}

// enter takes room for one connection, false if the server ends before there is
// any.
func (s *Server) enter() bool {
	for {
		select {
		case s.room <- struct{}{}:
			return true
		default:
			s.quiet.closeOldest()
		}
		again := time.NewTimer(roomTime)
		select {
		case s.room <- struct{}{}:
			again.Stop()
			return true
		case <-s.ctx.Done():
			again.Stop()
			return false
		case <-again.C: // one may be quiet now
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// Drain accepts nothing new and waits until what runs has ended, or until ctx
// ends; then it ends the rest. Kept sandboxes in which nothing runs do not
// hold it up.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	l := s.listener
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	done := make(chan struct{})
	go func() {
		s.runs.wait()
		close(done)
	}()
	var late error
	select {
	case <-done:
	case <-ctx.Done():
		late = context.Cause(ctx)
	}
	if late == nil {
		// the answers of what has ended are still on their way
		told, cancel := context.WithTimeout(ctx, answerTime)
		_ = s.http.Shutdown(told)
		cancel()
	}
	s.Close()
	<-done
	return late
}

// Close ends everything at once: connections, runs, kept sandboxes. The
// Runtime stays open. It is idempotent.
func (s *Server) Close() {
	s.mu.Lock()
	s.draining = true
	l, feed := s.listener, s.feed
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	if feed != nil {
		feed.Close()
	}
	s.stop()
	s.runs.endAll()
	s.kept.endAll()
	s.http.Close()
	s.work.Wait()
	s.runs.wait()
}
