package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/egress"
)

// The test binary is the process, too. What it does is in the mode and the
// rules it is given.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 && os.Args[0] == Name {
		os.Exit(process())
	}
	os.Exit(m.Run())
}

func process() int {
	if err := unix.SetNonblock(SocketFD, true); err != nil {
		return 2
	}
	p := NewPeer(os.NewFile(SocketFD, "supervisor"))
	c, err := p.Config()
	if err != nil {
		return 3
	}
	if !c.IPv6 {
		p.Fail(errors.New("told to fail"))
		return 1
	}
	if err := p.Ready(Ready{Confined: []string{"nothing"}}); err != nil {
		return 4
	}
	late := atomic.Int64{} // events that are told of at the end
	_ = p.Serve(func(b Begin) error {
		for _, r := range b.Policy.Rules {
			switch {
			case r.Name == "refuse.example":
				return errors.New("refused")
			case r.Name == "die.example":
				os.Exit(7)
			case r.Name == "late.example":
				late.Store(int64(r.MaxFlows))
			case r.Name == "many.example":
				for range r.MaxFlows {
					p.Note(egress.Event{Type: egress.EventDeny, Verdict: egress.Refuse, Reason: egress.ReasonIPLiteral})
				}
			}
		}
		if err := p.Durable(egress.Event{Type: egress.EventOpen, Name: "a\x1b.example"})(); err != nil {
			p.Note(egress.Event{Type: egress.EventDeny, Verdict: egress.Refuse, Reason: egress.ReasonAudit, Name: "failed"})
		}
		return nil
	})
	for range late.Load() {
		p.Note(egress.Event{Type: egress.EventDeny, Verdict: egress.Refuse, Reason: egress.ReasonIPLiteral})
	}
	p.Flush()
	return 0
}

type recorder struct {
	mu     sync.Mutex
	events []egress.Event
	waited int // of them, how many were to be durable
	err    error
	slow   time.Duration // that a record takes
}

func (r *recorder) Record(e []egress.Event) error {
	time.Sleep(r.slow)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.events = append(r.events, e...)
		r.waited += len(e)
	}
	return r.err
}

func (r *recorder) Later(e []egress.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.events = append(r.events, e...)
	}
	return r.err
}

func start(t *testing.T, r egress.Recorder) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(t.Context(), self, null, Config{IPv6: true}, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	return p
}

func rules(names ...string) egress.Policy {
	p := egress.Policy{Mode: egress.ModeRestricted}
	for _, n := range names {
		p.Rules = append(p.Rules, egress.Rule{Name: n})
	}
	return p
}

func TestConversation(t *testing.T) {
	r := &recorder{}
	p := start(t, r)
	if err := p.Set(t.Context(), rules("a.example"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := p.Set(t.Context(), rules("refuse.example"), time.Now()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	s := p.Stop()
	if s.Flows != 1 || s.Failed != "" || s.Mode != "restricted" || p.Died() {
		t.Errorf("got %+v", s)
	}
	if len(r.events) != 1 || r.events[0].Name != "a?.example" || r.events[0].Seq != 1 {
		t.Errorf("got %+v", r.events)
	}
	if again := p.Stop(); !reflect.DeepEqual(s, again) {
		t.Errorf("got %+v, then %+v", s, again)
	}
}

func TestFailToStart(t *testing.T) {
	self, _ := os.Executable()
	null, _ := os.Open(os.DevNull)
	if _, err := Start(t.Context(), self, null, Config{}, nil); err == nil || !strings.Contains(err.Error(), "told to fail") {
		t.Errorf("got %v", err)
	}
	null, _ = os.Open(os.DevNull)
	if _, err := Start(t.Context(), "/nonexistent", null, Config{}, nil); err == nil {
		t.Error("started what is not there")
	}
}

// A supervisor of a later build may send what is not known here.
func TestUnknownIsRefused(t *testing.T) {
	for text, known := range map[string]bool{
		`{"config":{"floor":{},"resolvers":null}}`:                   true,
		`{"config":{"floor":{},"resolvers":null,"new":1}}`:           false,
		`{"config":{"floor":{"new":1},"resolvers":null}}`:            false,
		`{"config":{"floor":{},"resolvers":null},"also":{}}`:         false,
		`{"config":{"floor":{},"resolvers":null,"secrets":{"A":0}}}`: false,
	} {
		p := NewPeer(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(text + "\n"), io.Discard})
		if _, err := p.Config(); (err == nil) != known || err != nil && !strings.Contains(err.Error(), "must be of one build") {
			t.Errorf("%s: %v", text, err)
		}
	}
	p := NewPeer(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(`{"begin":{"policy":{"mode":"restricted","rules":[{"name":"a.example","hours":"9-17"}]},"number":1,"granted":"2026-12-01T00:00:00Z"}}` + "\n"), io.Discard})
	err := p.Serve(func(Begin) error {
		t.Error("a rule is in force without its condition")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `unknown field "hours"`) {
		t.Errorf("%v", err)
	}
}

// What is noted is handed over without another message, and together; with one
// that is waited for it goes before that.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands while anybody works
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		p := NewPeer(ours)
		read := make([]byte, 64<<10)
		for i, notes := range []int{2, 1} {
			for range notes {
				p.Note(egress.Event{Type: egress.EventDeny})
			}
			if i == 1 {
				go p.Durable(egress.Event{Type: egress.EventOpen})
			}
			_ = theirs.SetReadDeadline(time.Now().Add(20 * time.Second))
			n, err := theirs.Read(read)
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(string(read[:n]), "\n"); lines != 2 {
				t.Errorf("%d events were handed over at once, want 2: %s", lines, read[:n])
			}
		}
	})
}

// A record that fails is told to the process, once and for good.
func TestFailingRecord(t *testing.T) {
	r := &recorder{err: errors.New("disk full")}
	p := start(t, r)
	if err := p.Set(t.Context(), rules("a.example"), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.err = nil // it comes back, but there is a gap
	r.mu.Unlock()
	if err := p.Set(t.Context(), rules("b.example"), time.Now()); err != nil {
		t.Fatal(err)
	}
	s := p.Stop()
	if !strings.Contains(s.Failed, "disk full") || !slices.ContainsFunc(s.Denials, func(d egress.Denial) bool { return d.Reason == egress.ReasonAudit && d.Count == 2 }) {
		t.Errorf("got %+v", s)
	}
	if len(r.events) != 0 {
		t.Errorf("recorded after a gap: %+v", r.events)
	}
}

func TestProcessDies(t *testing.T) {
	r := &recorder{}
	p := start(t, r)
	if err := p.Set(t.Context(), rules("die.example"), time.Now()); err == nil {
		t.Error("a dead process has set a policy")
	}
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed")
	}
	if s := p.Summary(); !strings.Contains(s.Failed, "exit status 7") || !p.Died() {
		t.Errorf("got %+v", s)
	}
	if err := p.Set(context.Background(), rules("a.example"), time.Now()); err == nil {
		t.Error("a dead process takes a policy")
	}
	if n := len(r.events); n != 1 || r.events[0].Type != egress.EventStop {
		t.Errorf("recorded %+v", r.events)
	}
}

// 20,000 events: none is lost, and they come in order.
func TestManyEvents(t *testing.T) {
	const many = 20000
	r := &recorder{}
	p := start(t, r)
	policy := rules("many.example")
	policy.Rules[0].MaxFlows = many
	began := time.Now()
	if err := p.Set(t.Context(), policy, time.Now()); err != nil {
		t.Fatal(err)
	}
	s := p.Stop()
	t.Logf("%.0f events a second", many/time.Since(began).Seconds())
	if s.Denied != many || len(r.events) != many+1 {
		t.Fatalf("%d counted, %d recorded", s.Denied, len(r.events))
	}
	if r.waited == 0 || r.waited > maxBatch {
		t.Errorf("%d events were waited for, one had to be", r.waited)
	}
	for i, e := range r.events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

// A change that waits for its record does not stop the answers to those before
// it, however many there are.
func TestManyChanges(t *testing.T) {
	const many = 100
	p := start(t, &recorder{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if err := p.Set(ctx, rules("a.example"), time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if s := p.Stop(); s.Flows != many {
		t.Errorf("%d of %d changes were made", s.Flows, many)
	}
}

func TestMachineFiles(t *testing.T) {
	got := resolvers([]byte("# x\nnameserver 9.9.9.9\nnameserver nonsense\nsearch example\nnameserver 2620:fe::fe\n"))
	if fmt.Sprint(got) != "[9.9.9.9:53 [2620:fe::fe]:53]" {
		t.Errorf("got %v", got)
	}
	if got := resolvers(nil); fmt.Sprint(got) != "[127.0.0.1:53]" {
		t.Errorf("got %v", got)
	}
	hosts := hostNames([]byte("127.0.0.1 localhost\n9.9.9.9  A.example b.example # c.example\nbad x\n9.9.9.8 a.example\n"))
	if !reflect.DeepEqual(hosts["a.example"], []netip.Addr{netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("9.9.9.8")}) || hosts["c.example"] != nil {
		t.Errorf("got %v", hosts)
	}
	m := Machine()
	if len(m.Floor.Host) == 0 || len(m.Resolvers) == 0 {
		t.Errorf("got %+v", m)
	}
}

// A disk that takes longer than the process may take to end loses nothing of
// what it said.
func TestSlowRecord(t *testing.T) {
	const many = maxBatch
	r := &recorder{slow: stopWait * 5 / 8}
	p := start(t, r)
	policy := rules("late.example")
	policy.Rules[0].MaxFlows = many
	if err := p.Set(t.Context(), policy, time.Now()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stop(); s.Denied != many || len(r.events) != many+1 || s.Failed != "" {
		t.Errorf("%d are counted and %d recorded of %d, %q", s.Denied, len(r.events), many, s.Failed)
	}
}
