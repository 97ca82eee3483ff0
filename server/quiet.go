package server

import (
	"container/list"
	"io"
	"net"
	"net/http"
	"sync"
)

// quiet are the connections on which nobody has asked for anything: of those
// who have just come, and of HTTP clients between two requests. Where there is
// no room left, the one that has been so for the longest makes some: callers
// that only connect cannot keep others out.
type quiet struct {
	mu    sync.Mutex
	order list.List // of io.Closer, the oldest first
	place map[io.Closer]*list.Element
}

func newQuiet() *quiet { return &quiet{place: map[io.Closer]*list.Element{}} }

// enter notes that a connection is quiet.
func (q *quiet) enter(c io.Closer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.place[c] == nil {
		q.place[c] = q.order.PushBack(c)
	}
}

// leave notes that it is not any more.
func (q *quiet) leave(c io.Closer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.place[c]; e != nil {
		q.order.Remove(e)
		delete(q.place, c)
	}
}

// closeOldest closes a connection, if there is one.
func (q *quiet) closeOldest() {
	q.mu.Lock()
	first := q.order.Front()
	if first != nil {
		q.order.Remove(first)
		delete(q.place, first.Value.(io.Closer))
	}
	q.mu.Unlock()
	if first != nil {
		first.Value.(io.Closer).Close()
	}
}

// follow is told of the states of HTTP connections.
func (q *quiet) follow(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew, http.StateIdle: // of a new one the head may not be whole
		q.enter(c)
	default:
		q.leave(c)
	}
}
