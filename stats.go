package isolate

import (
	"maps"
	"sync"
	"time"
)

// Stats is what a Runtime has and has done.
type Stats struct {
	// MaxSandboxes, MaxWaiting and MaxCells are the bounds in force.
	MaxSandboxes int `json:"max_sandboxes"`
	MaxWaiting   int `json:"max_waiting"`
	MaxCells     int `json:"max_cells"`

	// Cells is how many cells there are, Sandboxes how many sandboxes are in
	// use or being taken down, Waiting how many callers wait for one.
	Cells     int `json:"cells"`
	Sandboxes int `json:"sandboxes"`
	Waiting   int `json:"waiting"`
	// Spares is how many sandboxes are made ahead, Preparing how many are being
	// made, IdleSeats how many seats wait for work.
	Spares    int `json:"spares"`
	Preparing int `json:"preparing"`
	IdleSeats int `json:"idle_seats"`

	// Runs counts the runs that have ended, by reason.
	Runs map[Reason]uint64 `json:"runs"`
	// Ahead counts sandboxes that were taken ready-made, Made those that had
	// to be made while the caller waited.
	Ahead uint64 `json:"ahead"`
	Made  uint64 `json:"made"`
	// Refused counts callers turned away because too many waited already,
	// Waited is the time that all callers together waited.
	Refused uint64        `json:"refused"`
	Waited  time.Duration `json:"waited_ns"`
	// Blocked counts refused system calls that were recorded in ended runs.
	Blocked uint64 `json:"blocked"`
	// TearDownErrors counts sandboxes and cells that did not go as they should.
	TearDownErrors uint64 `json:"tear_down_errors"`
}

// counters are the numbers that only grow.
type counters struct {
	mu      sync.Mutex
	runs    map[Reason]uint64
	ahead   uint64
	made    uint64
	blocked uint64
	torn    uint64
	safety  safety
}

// ended counts a run that has ended.
func (c *counters) ended(res Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[Reason]uint64{}
	}
	c.runs[res.Reason]++
	c.blocked += uint64(res.Blocked.Total)
	c.safety.ended(res)
}

// origin says where a sandbox came from.
type origin int

const (
	madeAhead origin = iota
	madeNow
)

func (c *counters) took(from origin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from == madeAhead {
		c.ahead++
		return
	}
	c.made++
}

func (c *counters) tornBadly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.torn++
}

// Stats says what the Runtime has now and has done so far.
func (r *Runtime) Stats() Stats {
	s := Stats{MaxSandboxes: r.options.MaxSandboxes, MaxWaiting: r.options.MaxWaiting, MaxCells: r.options.MaxCells}
	r.mu.Lock()
	s.Cells = len(r.cells)
	for _, c := range r.cells {
		c.mu.Lock()
		s.Spares += len(c.spares)
		s.Preparing += c.making
		s.IdleSeats += len(c.idle)
		c.mu.Unlock()
	}
	r.mu.Unlock()
	q := r.queue
	q.mu.Lock()
	s.Sandboxes, s.Waiting, s.Refused, s.Waited = q.used, q.waiting.Len(), q.refused, q.waited
	q.mu.Unlock()
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Runs = maps.Clone(c.runs)
	if s.Runs == nil {
		s.Runs = map[Reason]uint64{}
	}
	s.Ahead, s.Made, s.Blocked, s.TearDownErrors = c.ahead, c.made, c.blocked, c.torn
	return s
}

// Running is a program that runs.
type Running struct{ box *box }

// Usage is what the program's sandbox has used so far. After the end of the
// run it means nothing.
func (r Running) Usage() (Usage, error) {
	u, err := r.box.sandbox.Usage()
	return Usage{CPU: u.CPU, Memory: u.MemoryPeak, OOMKills: u.OOMKills, PIDsDenied: u.PIDsDenied}, err
}
