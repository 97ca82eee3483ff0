package netd

import (
	"sync"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// Equal denials beyond this many in a second are folded into one event.
const (
	floodAfter  = 50
	floodWindow = time.Second
	// maxWindows bounds the different denials that are counted at once; more
	// are counted together.
	maxWindows = 4096
)

// events numbers and folds what happens before it goes to the sink.
type events struct {
	sink Sink

	mu      sync.Mutex
	windows map[key]*window
	failed  bool
	ticker  *time.Ticker
	done    chan struct{}
	ended   chan struct{}
}

// key is what makes denials equal.
type key struct {
	kind   string
	host   string
	port   uint16
	proto  string
	reason egress.Reason
}

type window struct {
	began time.Time
	count uint64
	event egress.Event // an example
}

func newEvents(s Sink) *events {
	e := &events{sink: s, windows: map[key]*window{}, ticker: time.NewTicker(floodWindow), done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		for {
			select {
			case <-e.ticker.C:
				e.fold(time.Now())
			case <-e.done:
				e.fold(time.Now().Add(floodWindow))
				return
			}
		}
	}()
	return e
}

// durable hands an event over; what it returns waits until the event is
// durable. When one was not, nothing is any more: new flows fail closed.
func (e *events) durable(ev egress.Event) func() error {
	ev.Time = time.Now()
	wait := e.sink.Durable(ev)
	return func() error {
		err := wait()
		if err != nil {
			e.mu.Lock()
			first := !e.failed
			e.failed = true
			e.mu.Unlock()
			if first {
				e.sink.Note(egress.Event{Type: egress.EventStop, Time: time.Now(), Verdict: egress.Refuse, Reason: egress.ReasonAudit})
			}
		}
		return err
	}
}

func (e *events) note(ev egress.Event) {
	ev.Time = time.Now()
	e.sink.Note(ev)
}

// deny notes a denial, or counts it if there are too many like it.
func (e *events) deny(ev egress.Event) {
	ev.Time, ev.Verdict = time.Now(), egress.Refuse
	host := ev.Name
	if host == "" && ev.Dst.IsValid() {
		host = ev.Dst.Addr().String()
	}
	k := key{ev.Type, host, ev.Port, ev.Proto, ev.Reason}
	e.mu.Lock()
	w := e.windows[k]
	if w == nil {
		if len(e.windows) >= maxWindows {
			k = key{kind: ev.Type, reason: ev.Reason}
			ev.Name = "(many)"
			w = e.windows[k]
		}
		if w == nil {
			w = &window{began: ev.Time, event: ev}
			e.windows[k] = w
		}
	}
	w.count++
	fold := w.count > floodAfter
	e.mu.Unlock()
	if !fold {
		e.sink.Note(ev)
	}
}

// fold reports the counts of windows that are over.
func (e *events) fold(now time.Time) {
	e.mu.Lock()
	var out []egress.Event
	for k, w := range e.windows {
		if now.Sub(w.began) < floodWindow {
			continue
		}
		delete(e.windows, k)
		if w.count > floodAfter {
			ev := w.event
			ev.Type, ev.Count, ev.First, ev.Time = egress.EventFlood, w.count-floodAfter, w.began, now
			out = append(out, ev)
		}
	}
	e.mu.Unlock()
	for _, ev := range out {
		e.sink.Note(ev)
	}
}

func (e *events) close() {
	e.ticker.Stop()
	close(e.done)
	<-e.ended
}

// bucket bounds how often something happens.
type bucket struct {
	mu    sync.Mutex
	rate  float64
	burst float64
	left  float64
	last  time.Time
}

func newBucket(perSecond, burst float64) *bucket {
	return &bucket{rate: perSecond, burst: burst, left: burst, last: time.Now()}
}

func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(b.burst, b.left+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
