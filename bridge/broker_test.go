package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

func newBroker(t testing.TB, o Options, tools ...Tool) *Broker {
	t.Helper()
	set, err := NewSet(tools...)
	must(t, err)
	b := NewBroker(set, o)
	t.Cleanup(b.Close)
	return b
}

var lastID atomic.Int64

func ask(b *Broker, tool, args string) Answer {
	return b.Do(context.Background(), Request{
		ID: fmt.Sprint("b", lastID.Add(1)), Tool: tool, Args: json.RawMessage(args), Via: ViaSocket, Bytes: int64(len(args)),
	})
}

// refused checks that an answer is an error of a code in its class.
func refused(t testing.TB, a Answer, code Code, says string) {
	t.Helper()
	if a.Err == nil || a.Err.Code != code || a.Err.Class != catalogue[code].class || !strings.Contains(a.Err.Message, says) || a.Value != nil {
		t.Errorf("answer %s, %v; want %s with %q", a.Value, a.Err, code, says)
	}
}

func schemaOf(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	var s jsonschema.Schema
	must(t, json.Unmarshal([]byte(text), &s))
	return &s
}

// A name is kept only if a tool could have it: through the socket it may be a
// megabyte, and there are a thousand records.
func TestLongName(t *testing.T) {
	b := newBroker(t, Options{}, echo)
	refused(t, ask(b, strings.Repeat("x", 1<<20), "{}"), CodeUnknownTool, "too long")
	if r := b.Summary().Calls[0]; len(r.Tool) > maxToolName || r.Code != CodeUnknownTool {
		t.Errorf("a name of %d bytes is recorded, %+v", len(r.Tool), r.Code)
	}
}

// B 64, C of the issue: the cap is exact, whatever becomes of the calls.
func TestCap(t *testing.T) {
	for name, tool := range map[string]Tool{
		"good":    echo,
		"failing": {Name: "echo", Run: func(context.Context, Call) (Reply, error) { return Reply{}, errors.New("no") }},
	} {
		var ran atomic.Int64
		run := tool.Run
		tool.Run = func(ctx context.Context, c Call) (Reply, error) { ran.Add(1); return run(ctx, c) }
		b := newBroker(t, Options{}, tool)
		var over atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if a := ask(b, "echo", "{}"); a.Err != nil && a.Err.Code == CodeCalls {
					over.Add(1)
				}
			})
		}
		wg.Wait()
		s := b.Summary()
		if ran.Load() != 50 || over.Load() != 50 || s.Accepted != 50 || s.Refused != 50 || s.Done != 50 || len(s.Calls) != 100 {
			t.Errorf("%s: ran %d, over %d, %+v", name, ran.Load(), over.Load(), s)
		}
	}
	b := newBroker(t, Options{MaxCalls: 3}, echo)
	refused(t, ask(b, "no\x1bne", "{}"), CodeUnknownTool, `unknown tool: "no\x1bne"`)
	refused(t, ask(b, "echo", "[]"), CodeBadRequest, "no object")
	refused(t, ask(b, "echo", "{"), CodeBadJSON, "ends early")
	refused(t, ask(b, "echo", "{}"), CodeCalls, "tool-call budget exceeded: at most 3")
}

func TestLimits(t *testing.T) {
	one := echo
	one.MaxCalls = 1
	b := newBroker(t, Options{MaxCalls: NoLimit, TotalRequestBytes: 100, TotalResponseBytes: 50}, one,
		constant("big", `"`+strings.Repeat("x", 30)+`"`))
	if a := ask(b, "echo", "{}"); a.Err != nil {
		t.Error(a.Err)
	}
	refused(t, ask(b, "echo", "{}"), CodeToolCalls, "at most 1 calls of this tool")
	if a := ask(b, "big", "{}"); a.Err != nil {
		t.Error(a.Err)
	}
	refused(t, ask(b, "big", "{}"), CodeTotalBytes, "50 bytes of results")
	refused(t, ask(b, "big", `{"a": "`+strings.Repeat("x", 100)+`"}`), CodeTotalBytes, "100 bytes of requests")

	b = newBroker(t, Options{}, echo)
	r := Request{ID: "same", Tool: "echo", Args: json.RawMessage("{}")}
	if a := b.Do(t.Context(), r); a.Err != nil {
		t.Error(a.Err)
	}
	refused(t, b.Do(t.Context(), r), CodeDuplicateID, "used before")
}

// B 66, C 13: a tool that hangs, panics, leaves, returns rubbish: one coded
// error each, and the bridge goes on.
func TestBadTools(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	cancelled := make(chan struct{})
	tool := func(name string, f func(context.Context, Call) (Reply, error)) Tool { return Tool{Name: name, Run: f} }
	deaf := tool("deaf", func(context.Context, Call) (Reply, error) { <-release; return Reply{}, nil })
	deaf.Timeout = 50 * time.Millisecond
	hears := tool("hears", func(ctx context.Context, _ Call) (Reply, error) {
		<-ctx.Done()
		close(cancelled)
		return Reply{}, ctx.Err()
	})
	hears.Timeout = 50 * time.Millisecond
	b := newBroker(t, Options{MaxCalls: NoLimit, Parallel: 1}, deaf, hears, echo,
		tool("panics", func(context.Context, Call) (Reply, error) { panic("secret /host/path") }),
		tool("leaves", func(context.Context, Call) (Reply, error) { runtime.Goexit(); return Reply{}, nil }),
		tool("fails", func(context.Context, Call) (Reply, error) { return Reply{}, errors.New("open /host/path: secret") }),
		tool("own", func(context.Context, Call) (Reply, error) {
			return Reply{}, fmt.Errorf("wrapped: %w", &Error{Failed, "not_found", "no such invoice", json.RawMessage("{\n\"id\": 7}")})
		}),
		tool("odd", func(context.Context, Call) (Reply, error) {
			return Reply{}, &Error{"nonsense", "a b\n", strings.Repeat("é", 10_000), json.RawMessage("{")}
		}),
		constant("utf8", "\"\xff\""), constant("half", "{"), constant("two", "1 2"), constant("nan", "NaN"), constant("same", `{"a":[{"b":1,"b":2}]}`),
		tool("nothing", func(context.Context, Call) (Reply, error) { return Reply{}, nil }),
	)
	refused(t, ask(b, "deaf", "{}"), CodeTimeout, "within 50ms")
	refused(t, ask(b, "hears", "{}"), CodeTimeout, "within 50ms")
	select {
	case <-cancelled:
	case <-time.After(patience):
		t.Error("the tool was not cancelled")
	}
	refused(t, ask(b, "panics", "{}"), CodePanic, "the tool crashed")
	refused(t, ask(b, "leaves", "{}"), CodePanic, "the tool crashed")
	refused(t, ask(b, "fails", "{}"), CodeFailed, "the tool failed")
	if a := ask(b, "own", "{}"); a.Err == nil || a.Err.Code != "not_found" || a.Err.Message != "no such invoice" || string(a.Err.Details) != `{"id":7}` {
		t.Errorf("own error: %+v", a.Err)
	}
	if e := ask(b, "odd", "{}").Err; e == nil || e.Class != Failed || e.Code != CodeFailed || len(e.Message) > messageMax || e.Details != nil {
		t.Errorf("odd error: %+v", e)
	}
	for _, name := range []string{"utf8", "half", "two", "nan"} {
		refused(t, ask(b, name, "{}"), CodeBadResult, "not one JSON value")
	}
	refused(t, ask(b, "same", "{}"), CodeBadResult, `has the name "b" twice in one object`)
	if a := ask(b, "nothing", "{}"); string(a.Value) != "null" {
		t.Errorf("nothing: %s, %v", a.Value, a.Err)
	}
	if a := ask(b, "echo", "{}"); a.Err != nil { // the one slot is free again
		t.Error(a.Err)
	}
	details := ""
	for _, r := range b.Summary().Calls {
		details += r.Detail + "\n"
	}
	for _, want := range []string{"panic: secret /host/path", "open /host/path: secret", "ended its goroutine"} {
		if !strings.Contains(details, want) {
			t.Errorf("no record says %q", want)
		}
	}
	if s := b.Summary(); s.Failed != 12 || s.Done != 14 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// C 7: what a tool returns comes back as it is.
func TestResults(t *testing.T) {
	for _, v := range []string{"null", "true", "0", "-0.0", "9223372036854775808", "1e308", "[[[]]]", "{}", `"\u0000"`, `"\ud800"`, `"é"`} {
		b := newBroker(t, Options{}, constant("c", v))
		if a := ask(b, "c", "{}"); string(a.Value) != v {
			t.Errorf("%s came back as %s, %v", v, a.Value, a.Err)
		}
	}
}

// No queue grows without bound: what cannot wait is refused.
func TestPending(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, 10)
	b := newBroker(t, Options{MaxCalls: NoLimit, Parallel: 2, MaxPending: 3}, Tool{Name: "wait", Run: func(ctx context.Context, _ Call) (Reply, error) {
		started <- struct{}{}
		<-release
		return Reply{}, nil
	}})
	answers := make(chan Answer, 20)
	for range 8 {
		go func() { answers <- ask(b, "wait", "{}") }()
	}
	for range 3 {
		refused(t, <-answers, CodePending, "at most 3 may wait")
	}
	close(release)
	for range 5 {
		if a := <-answers; a.Err != nil {
			t.Error(a.Err)
		}
	}
	if len(started) != 5 {
		t.Errorf("%d ran", len(started))
	}
}

// C 14, B 67: the end of the run answers at once; what the tool did is
// unknown, and what it returns later is thrown away and recorded as that.
func TestClose(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	j := &journal{}
	b := newBroker(t, Options{Journal: j, Parallel: 1}, Tool{Name: "wait", Run: func(ctx context.Context, _ Call) (Reply, error) {
		close(started)
		<-release // deaf to ctx
		return Reply{Value: json.RawMessage("1")}, nil
	}})
	answers := make(chan Answer, 2)
	go func() { answers <- ask(b, "wait", "{}") }()
	<-started
	go func() { answers <- ask(b, "wait", "{}") }() // never gets the slot
	for b.Summary().Accepted < 2 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	b.Close()
	if d := time.Since(begin); d > patience {
		t.Errorf("Close took %v", d)
	}
	refused(t, <-answers, CodeClosed, "ended")
	refused(t, <-answers, CodeClosed, "ended")
	refused(t, ask(b, "wait", "{}"), CodeClosed, "ended")
	s := b.Summary()
	if s.Unknown != 1 || s.Refused != 2 || s.Done != 0 || s.Calls[0].State != Unknown || s.Calls[1].State != Refused {
		t.Errorf("%+v", s)
	}
	close(release)
	for end := time.Now().Add(patience); b.Summary().Calls[0].State != Discarded; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never discarded")
		}
	}
	b.Close()
	j.wait(t, "accepted 1 running; finished 1 unknown")
	j.wait(t, "finished 1 discarded")
	if s := b.Summary(); s.Unknown != 1 || s.Done != 0 {
		t.Errorf("%+v", s)
	}
}

// A tool that listens ends when the run does. It ended after it, whoever of
// the two is noticed first.
func TestCloseIsHeard(t *testing.T) {
	for range 50 {
		started := make(chan struct{})
		j := &journal{}
		b := newBroker(t, Options{Journal: j}, Tool{Name: "wait", Run: func(ctx context.Context, _ Call) (Reply, error) {
			close(started)
			<-ctx.Done()
			return Reply{Value: json.RawMessage("1")}, nil
		}})
		answers := make(chan Answer, 1)
		go func() { answers <- ask(b, "wait", "{}") }()
		<-started
		b.Close()
		refused(t, <-answers, CodeClosed, "ended")
		j.wait(t, "finished 1 discarded")
		if s := b.Summary(); s.Unknown != 1 || s.Done != 0 || s.Calls[0].State != Discarded {
			t.Fatalf("%+v", s)
		}
	}
}

// A caller that leaves ends its call only.
func TestCallerLeaves(t *testing.T) {
	started := make(chan struct{})
	b := newBroker(t, Options{}, echo, Tool{Name: "wait", Run: func(ctx context.Context, _ Call) (Reply, error) {
		close(started)
		<-ctx.Done()
		return Reply{}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	refused(t, b.Do(ctx, Request{ID: "x", Tool: "wait", Args: json.RawMessage("{}")}), CodeClosed, "")
	if a := ask(b, "echo", "{}"); a.Err != nil {
		t.Error(a.Err)
	}
}

// journal is a Journal that remembers and may fail.
type journal struct {
	mu       sync.Mutex
	lines    []string
	records  []Record
	accepted func(Record) error
	finished func(Record) error
}

func (j *journal) note(what string, r Record, state State, f func(Record) error) error {
	j.mu.Lock()
	j.lines = append(j.lines, fmt.Sprintf("%s %d %s", what, r.Seq, state))
	j.records = append(j.records, r)
	j.mu.Unlock()
	if f != nil {
		return f(r)
	}
	return nil
}

func (j *journal) Accepted(r Record) error { return j.note("accepted", r, Running, j.accepted) }
func (j *journal) Finished(r Record) error { return j.note("finished", r, r.State, j.finished) }

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "; ")
}

func (j *journal) wait(t testing.TB, want string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(j.text(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the journal says %q, not %q", j.text(), want)
		}
	}
}

// Rule 19: recorded, then run; recorded, then answered; and nothing is done
// that cannot be recorded.
func TestJournal(t *testing.T) {
	var ran atomic.Int64
	j := &journal{}
	tool := Tool{Name: "t", Run: func(_ context.Context, c Call) (Reply, error) {
		if !strings.HasSuffix(j.text(), fmt.Sprintf("accepted %d running", c.Seq)) {
			t.Errorf("the tool runs and the journal says %s", j.text())
		}
		ran.Add(1)
		return Reply{}, nil
	}}
	b := newBroker(t, Options{Journal: j}, tool)
	if a := ask(b, "t", `{"b":1,"a":2}`); a.Err != nil {
		t.Error(a.Err)
	}
	ask(b, "u", "{}")
	if got, want := j.text(), "accepted 1 running; finished 1 done; finished 0 refused"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(j.records[0].Args); got != `{"a":2,"b":1}` {
		t.Errorf("recorded arguments %s", got)
	}
	j.accepted = func(Record) error { return errors.New("disk full at /host/path") }
	a := ask(b, "t", "{}")
	refused(t, a, CodeLog, "could not be recorded")
	if ran.Load() != 1 {
		t.Error("ran without a record")
	}
	j.accepted, j.finished = nil, func(Record) error { return errors.New("disk full") }
	refused(t, ask(b, "t", "{}"), CodeLog, "could not be recorded")
	if r := b.Summary().Calls[3]; r.Code != CodeLog || !strings.Contains(r.Detail, "disk full") || r.State != Done {
		t.Errorf("%+v", r)
	}
}

// Refusals without end do not fill a log or memory.
func TestRefusalsAreBounded(t *testing.T) {
	j := &journal{}
	b := newBroker(t, Options{MaxCalls: 1, Journal: j}, echo)
	for range 3 * MaxRecords {
		ask(b, "x", "{}")
	}
	s := b.Summary()
	if len(j.lines) != MaxRecords || len(s.Calls) != MaxRecords || s.Omitted != 2*MaxRecords || s.Refused != 3*MaxRecords {
		t.Errorf("%d in the journal, %d records, %d omitted, %d refused", len(j.lines), len(s.Calls), s.Omitted, s.Refused)
	}
}

func TestSeenIDs(t *testing.T) {
	var s seenIDs
	for i := range 5 * seenMax {
		if !s.add(fmt.Sprint(i)) {
			t.Fatalf("%d is taken for seen", i)
		}
		if i >= seenMax/2 && s.add(fmt.Sprint(i-seenMax/2)) {
			t.Fatalf("%d was forgotten at %d", i-seenMax/2, i)
		}
	}
	if n := len(s.new) + len(s.old); n > 2*seenMax {
		t.Errorf("%d ids are kept", n)
	}
}
