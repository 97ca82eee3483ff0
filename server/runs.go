package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
)

// ErrKilled is the cause of the end of a run that was ended by a request to
// the server; see context.Cause.
var ErrKilled = errors.New("ended by a request to the server")

var errStopping = errors.New("the server is ending")

// Ways in which a run came.
const (
	runDoor = "command" // isolate exec or shell, through the door
	runHTTP = "http"
)

// run is one program, running or remembered.
type run struct {
	id      string
	way     string
	pid     int // of the process that asked, 0 if it cannot be seen
	args    []string
	sandbox string // the kept one that it runs in; empty: one of its own
	began   time.Time
	cancel  func(error)
	input   *input // nil: its standard input is not for others to write
	log     *tail  // nil: its output went to the process that asked

	mu     sync.Mutex
	ended  time.Time
	killed bool
	code   *int
	result *isolate.Result
	probe  *isolate.Running // nil before the program has started
	usage  isolate.Usage    // of one that has ended
	err    error
	done   chan struct{}
}

// runs are the runs of a server: those going on, and the last ones that ended.
type runs struct {
	keep int

	mu     sync.Mutex
	idle   sync.Cond
	next   uint64
	active int
	list   []*run // oldest first
	closed bool
}

func newRuns(keep int) *runs {
	r := &runs{keep: keep}
	r.idle.L = &r.mu
	return r
}

// begin registers a run; nil means that the server is ending.
func (s *runs) begin(way string, pid int, args []string, cancel func(error)) *run {
	return s.add(&run{way: way, pid: pid, args: args, cancel: cancel})
}

func (s *runs) add(r *run) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.next++
	r.id, r.began, r.done = "r"+strconv.FormatUint(s.next, 10), time.Now(), make(chan struct{})
	s.active++
	s.list = append(s.list, r)
	return r
}

// end says that nothing of the run is left.
func (s *runs) end(r *run) {
	r.mu.Lock()
	r.ended = time.Now()
	r.mu.Unlock()
	close(r.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.active == 0 {
		s.idle.Broadcast()
	}
	// forget the oldest of those that ended
	for over := len(s.list) - s.active - s.keep; over > 0; over-- {
		s.list = slices.Delete(s.list, s.oldestEnded(), s.oldestEnded()+1)
	}
}

func (s *runs) oldestEnded() int {
	return slices.IndexFunc(s.list, func(r *run) bool { return r.hasEnded() })
}

func (r *run) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended.IsZero()
}

// wait waits until nothing runs.
func (s *runs) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.active > 0 {
		s.idle.Wait()
	}
}

// endAll cancels whatever runs.
func (s *runs) endAll() {
	s.mu.Lock()
	s.closed = true
	list := slices.Clone(s.list)
	s.mu.Unlock()
	for _, r := range list {
		r.cancel(errStopping)
	}
}

// find finds a run; nil if there is none of that name.
func (s *runs) find(id string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.id == id {
			return r
		}
	}
	return nil
}

// forget removes a run that has ended, and says whether it has.
func (s *runs) forget(r *run) bool {
	if !r.hasEnded() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(o *run) bool { return o == r })
	return true
}

// all describes every run, oldest first.
func (s *runs) all() []client.Run {
	s.mu.Lock()
	list := slices.Clone(s.list)
	s.mu.Unlock()
	out := make([]client.Run, len(list))
	for i, r := range list {
		out[i] = r.describe()
	}
	return out
}

func (s *runs) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// kill ends the run.
func (r *run) kill() {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.cancel(ErrKilled)
}

// exited notes the exit code that the process outside was told.
func (r *run) exited(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = &code
}

func (r *run) hasExited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.code != nil
}

// finished notes what came of the program.
func (r *run) finished(res isolate.Result, err error) {
	code := res.CommandExitCode()
	if err != nil {
		code = client.ExitRefused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result, r.err, r.code, r.usage = &res, err, &code, res.Usage
}

// used notes what the program has used.
func (r *run) used(u isolate.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage, r.probe = u, nil
}

// started is told when the program runs.
func (r *run) started(p isolate.Running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probe = &p
}

// describe is the run as the wire has it.
func (r *run) describe() client.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := client.Run{
		ID: r.id, Way: r.way, PID: r.pid, Args: r.args, Sandbox: r.sandbox, Began: r.began,
		State: client.StateRunning, ExitCode: r.code, Killed: r.killed,
	}
	if !r.ended.IsZero() {
		d.State, d.Ended = client.StateEnded, &r.ended
	}
	d.CPU, d.Memory = r.usage.CPU, r.usage.Memory
	if r.result != nil {
		d.Result, _ = json.Marshal(r.result)
	} else if r.probe != nil && r.ended.IsZero() {
		if u, err := r.probe.Usage(); err == nil {
			d.CPU, d.Memory = u.CPU, u.Memory
		}
	}
	return d
}
