package netd

import (
	"net/netip"
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// Answer is what a name has: all of its addresses, and for how long whoever
// serves it lets them be kept.
type Answer struct {
	Addrs []netip.Addr
	TTL   time.Duration
}

// Bounds on what is kept of answers.
const (
	maxAnswers = 256
	// keepFor is the longest that an answer is kept, whatever it says.
	keepFor = time.Minute
)

// answerTable holds the answers that names have been dialled by, or that the
// program was told, so that the next connection need not wait for another. Each
// judges what it takes from here as if it had just come.
type answerTable struct {
	mu sync.Mutex
	of map[egress.Name]found
}

// found is what a name had when it was last looked up.
type found struct {
	addrs []netip.Addr
	until time.Time
}

func newAnswerTable() *answerTable { return &answerTable{of: map[egress.Name]found{}} }

// get is what is kept of a name; nil if nothing is.
func (a *answerTable) get(n egress.Name, now time.Time) []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, ok := a.of[n]
	if !ok {
		return nil
	}
	if !now.Before(f.until) {
		delete(a.of, n)
		return nil
	}
	return f.addrs
}

// keep keeps an answer that came at a time. If there are too many, those go
// whose time is over, or this one.
func (a *answerTable) keep(n egress.Name, x Answer, at time.Time) {
	if x.TTL <= 0 || len(x.Addrs) == 0 || len(x.Addrs) > maxFound {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.of[n]; !known && len(a.of) >= maxAnswers {
		for name, f := range a.of {
			if !at.Before(f.until) {
				delete(a.of, name)
			}
		}
		if len(a.of) >= maxAnswers {
			return
		}
	}
	a.of[n] = found{x.Addrs, at.Add(min(x.TTL, keepFor))}
}

func (a *answerTable) forget(n egress.Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, n)
}
