package isolate

import "sync"

// users counts the runs in a kept sandbox.
type users struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and nobody is there
}

// enter says whether one more may come; leave must follow.
func (u *users) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.n++
	return true
}

func (u *users) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n--; u.n == 0 && u.closed {
		close(u.idle)
	}
}

// close lets nobody in any more. The channel is closed when nobody is there;
// busy says that somebody is, to the first who asks.
func (u *users) close() (idle <-chan struct{}, busy bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.closed, u.idle = true, make(chan struct{})
		if u.n == 0 {
			close(u.idle)
		}
		busy = u.n > 0
	}
	return u.idle, busy
}
