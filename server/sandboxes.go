package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
)

// Leases of kept sandboxes.
const (
	defaultIdle     = 10 * time.Minute
	defaultLifetime = time.Hour
	maxLifetime     = 24 * time.Hour
)

// kept is a kept sandbox with its lease.
type kept struct {
	id       string
	sandbox  *isolate.Sandbox
	began    time.Time
	idle     time.Duration
	lifetime time.Duration

	used    time.Time // when the last request ended
	running int
	clock   *time.Timer
}

// expires is when the lease ends if nothing happens.
func (k *kept) expires() time.Time {
	end := k.began.Add(k.lifetime)
	if idle := k.used.Add(k.idle); k.running == 0 && idle.Before(end) {
		return idle
	}
	return end
}

// sandboxes are the kept sandboxes of a server.
type sandboxes struct {
	most int

	mu     sync.Mutex
	next   uint64
	making int
	list   map[string]*kept
	closed bool
	ending sync.WaitGroup
}

func newSandboxes(most int) *sandboxes { return &sandboxes{most: most, list: map[string]*kept{}} }

func errNoSandbox(id string) error {
	return failed(http.StatusNotFound, fmt.Sprintf("cannot find sandbox %q: there is none of that name, or its lease has ended", id), "make a new one: isolate sandbox new, or over HTTP POST /v1/sandboxes\nsee which there are: isolate ps, or over HTTP GET /v1/sandboxes")
}

// reserve takes a place for a sandbox that is to be made.
func (s *sandboxes) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return failed(http.StatusServiceUnavailable, "cannot make sandbox: the server is ending", "ask again when it has started anew")
	}
	if len(s.list)+s.making >= s.most {
		return failed(http.StatusServiceUnavailable, fmt.Sprintf("cannot make sandbox: %d are kept already", s.most), "end one that is not needed: isolate sandbox rm, or over HTTP DELETE /v1/sandboxes/{id}")
	}
	s.making++
	return nil
}

// add puts a sandbox in its reserved place; nil gives the place back. It says
// whether the sandbox is kept: a server that is ending keeps none.
func (s *sandboxes) add(k *kept) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making--
	if k == nil || s.closed {
		return false
	}
	s.next++
	k.id = "s" + strconv.FormatUint(s.next, 10)
	s.list[k.id] = k
	k.clock = time.AfterFunc(time.Until(k.expires()), func() { s.expire(k) })
	return true
}

// expire ends a sandbox whose lease has ended, or looks again later.
func (s *sandboxes) expire(k *kept) {
	s.mu.Lock()
	if s.list[k.id] != k {
		s.mu.Unlock()
		return
	}
	if left := time.Until(k.expires()); left > 0 {
		k.clock.Reset(left)
		s.mu.Unlock()
		return
	}
	s.forget(k)
	s.mu.Unlock()
	s.close(k)
}

// forget takes a sandbox out of the list; close must follow. The caller holds
// the lock.
func (s *sandboxes) forget(k *kept) {
	delete(s.list, k.id)
	k.clock.Stop()
	s.ending.Add(1)
}

func (s *sandboxes) close(k *kept) error {
	defer s.ending.Done()
	return k.sandbox.Close()
}

// use finds a sandbox for a request; release must follow.
func (s *sandboxes) use(id string) (*kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.list[id]
	if k == nil {
		return nil, errNoSandbox(id)
	}
	k.running++
	return k, nil
}

// has says whether a sandbox is still there.
func (s *sandboxes) has(k *kept) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[k.id] == k
}

// release begins the idle time anew.
func (s *sandboxes) release(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.running--
	k.used = time.Now()
	if s.list[k.id] == k {
		k.clock.Reset(max(0, time.Until(k.expires())))
	}
}

func (s *sandboxes) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// describe is a sandbox as the wire has it. The caller holds the lock.
func (k *kept) describe() client.Sandbox {
	return client.Sandbox{ID: k.id, Plan: k.sandbox.Plan(), Began: k.began, Expires: k.expires(), Running: k.running}
}

// all describes every sandbox, oldest first.
func (s *sandboxes) all() []client.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]client.Sandbox, 0, len(s.list))
	for _, k := range s.list {
		list = append(list, k.describe())
	}
	slices.SortFunc(list, func(a, b client.Sandbox) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	return list
}

// endAll ends every sandbox and waits until they are gone.
func (s *sandboxes) endAll() {
	s.mu.Lock()
	s.closed = true
	var list []*kept
	for _, k := range s.list {
		list = append(list, k)
		s.forget(k)
	}
	s.mu.Unlock()
	for _, k := range list {
		_ = s.close(k) // the Runtime's Close reports what does not go
	}
	s.ending.Wait()
}

func (s *Server) postSandbox(w http.ResponseWriter, r *http.Request) error {
	var q client.SandboxRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	p, err := policy.Decode("policy", []byte(q.Policy))
	if err != nil {
		return err
	}
	k := &kept{}
	if k.idle, err = lease("idle", q.Idle, defaultIdle); err != nil {
		return err
	}
	if k.lifetime, err = lease("lifetime", q.Lifetime, defaultLifetime); err != nil {
		return err
	}
	if err := s.kept.reserve(); err != nil {
		return err
	}
	k.sandbox, err = s.options.Runtime.Sandbox(r.Context(), p)
	if err != nil {
		s.kept.add(nil)
		return err
	}
	k.began = time.Now()
	k.used = k.began
	if !s.kept.add(k) {
		_ = k.sandbox.Close()
		return failed(http.StatusServiceUnavailable, "cannot make sandbox: the server is ending", "ask again when it has started anew")
	}
	s.kept.mu.Lock()
	d := k.describe()
	s.kept.mu.Unlock()
	return answer(w, http.StatusCreated, d)
}

// lease reads a duration of a lease.
func lease(name, text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	d, err := policy.ParseDuration(text)
	if err == nil && d > maxLifetime {
		err = fmt.Errorf("it is more than %s", maxLifetime)
	}
	if err != nil {
		return 0, failed(http.StatusBadRequest, fmt.Sprintf("cannot use %s %q: %v", name, text, err), "write a duration of at most 24h, as \"10m\"")
	}
	return d, nil
}

func (s *Server) getSandboxes(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, map[string]any{"sandboxes": s.kept.all()})
}

func (s *Server) getSandbox(w http.ResponseWriter, r *http.Request) error {
	s.kept.mu.Lock()
	k := s.kept.list[r.PathValue("id")]
	var d client.Sandbox
	if k != nil {
		d = k.describe()
	}
	s.kept.mu.Unlock()
	if k == nil {
		return errNoSandbox(r.PathValue("id"))
	}
	return answer(w, http.StatusOK, d)
}

func (s *Server) deleteSandbox(w http.ResponseWriter, r *http.Request) error {
	s.kept.mu.Lock()
	k := s.kept.list[r.PathValue("id")]
	if k != nil {
		s.kept.forget(k)
	}
	s.kept.mu.Unlock()
	if k == nil {
		return errNoSandbox(r.PathValue("id"))
	}
	if err := s.kept.close(k); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// renewLease begins the idle time anew.
func (s *Server) renewLease(w http.ResponseWriter, r *http.Request) error {
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	s.kept.release(k)
	return s.getSandbox(w, r)
}

// grantNet opens a sandbox's network for a time.
func (s *Server) grantNet(w http.ResponseWriter, r *http.Request) error {
	var q client.NetGrant
	if err := decode(r, &q); err != nil {
		return err
	}
	g := isolate.NetGrant{Reason: q.Reason}
	for _, text := range q.Allow {
		rule, err := egress.ParseShortRule(text)
		if err != nil {
			remedy := "write [PROTOCOL://]HOST[:PORT]"
			var p egress.Problem
			if errors.As(err, &p) && p.Hint != "" {
				remedy = p.Hint
			}
			return failed(http.StatusBadRequest, err.Error(), remedy)
		}
		g.Rules = append(g.Rules, rule)
	}
	var err error
	if g.For, err = policy.ParseDuration(q.For); err != nil {
		return failed(http.StatusBadRequest, fmt.Sprintf("cannot use for %q: %v", q.For, err), "write a duration of at most 24h, as \"10m\"")
	}
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	until, err := k.sandbox.Grant(r.Context(), g)
	if err != nil {
		return err
	}
	granted := client.NetGranted{Until: until}
	for _, rule := range g.Rules {
		granted.Rules = append(granted.Rules, rule.String())
	}
	return answer(w, http.StatusOK, granted)
}

// killSandbox ends every program in a sandbox, which stays.
func (s *Server) killSandbox(w http.ResponseWriter, r *http.Request) error {
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	if err := k.sandbox.Kill(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
