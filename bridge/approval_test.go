package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// decider is an Approver made of a function.
type decider func(context.Context, Question) (Decision, error)

func (d decider) Approve(ctx context.Context, q Question) (Decision, error) { return d(ctx, q) }

var asked = Tool{Name: "pay", Description: "Pays.", Source: "go", Approve: ApproveAsk, Run: echo.Run}

// C 39: each way a question can end.
func TestApproval(t *testing.T) {
	tool := asked
	tool.Input = schemaOf(t, `{"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}`)
	for name, c := range map[string]struct {
		approver Approver
		value    string
		code     Code
		by       string
		verdict  Verdict
	}{
		"granted": {decider(func(_ context.Context, q Question) (Decision, error) {
			if q.Tool != "pay" || q.Description != "Pays." || q.Source != "go" || q.Seq != 1 || q.ID == "" || string(q.Args) != `{"n":1}` {
				t.Errorf("question %+v", q)
			}
			return Decision{Verdict: Allow, By: "ann", Reason: "fine"}, nil
		}), `{"n":1}`, "", "ann", Allow},
		"denied":   {decider(func(context.Context, Question) (Decision, error) { return Decision{By: "ann"}, nil }), "", CodeDenied, "ann", Deny},
		"nobody":   {nil, "", CodeNobodyToAsk, "nobody", Deny},
		"error":    {decider(func(context.Context, Question) (Decision, error) { return Decision{Verdict: Allow}, errors.New("x") }), "", CodeDenied, "", Deny},
		"crashed":  {decider(func(context.Context, Question) (Decision, error) { panic("x") }), "", CodeDenied, "", Deny},
		"too late": {decider(func(ctx context.Context, _ Question) (Decision, error) { <-ctx.Done(); return Decision{}, ctx.Err() }), "", CodeApprovalWait, "timeout", Deny},
		"edited": {decider(func(context.Context, Question) (Decision, error) {
			return Decision{Verdict: Allow, Args: json.RawMessage(` {"n" : 7}`)}, nil
		}), `{"n":7}`, "", "", Allow},
		"bad edit": {decider(func(context.Context, Question) (Decision, error) {
			return Decision{Verdict: Allow, Args: json.RawMessage(`{"n":"7"}`)}, nil
		}), "", CodeInvalid, "", Allow},
		"no object": {decider(func(context.Context, Question) (Decision, error) {
			return Decision{Verdict: Allow, Args: json.RawMessage(`7`)}, nil
		}), "", CodeBadRequest, "", Allow},
		"edit twice": {decider(func(context.Context, Question) (Decision, error) {
			return Decision{Verdict: Allow, Args: json.RawMessage(`{"n":1,"n":2}`)}, nil
		}), "", CodeBadJSON, "", Allow},
	} {
		var holds, releases atomic.Int64
		wait := patience
		if name == "too late" {
			wait = 50 * time.Millisecond
		}
		b := newBroker(t, Options{Approver: c.approver, ApprovalWait: wait, Hold: func() func() {
			holds.Add(1)
			return func() { releases.Add(1) }
		}}, tool)
		a := ask(b, "pay", `{}`)
		if c.code != "" {
			refused(t, a, c.code, "")
		} else if string(a.Value) != c.value {
			t.Errorf("%s: %s, %v", name, a.Value, a.Err)
		}
		r := b.Summary().Calls[0]
		if r.Approval == nil || r.Approval.By != c.by || r.Approval.Verdict != c.verdict || name == "edited" && string(r.Approval.Edited) != `{"n":7}` {
			t.Errorf("%s: recorded %+v", name, r.Approval)
		}
		if want := int64(1); name != "nobody" && (holds.Load() != want || releases.Load() != want) {
			t.Errorf("%s: the clock was held %d times and let go %d times", name, holds.Load(), releases.Load())
		}
		if name == "too late" && r.Waited < 50*time.Millisecond {
			t.Errorf("waited %v", r.Waited)
		}
	}
}

func TestApproveWrites(t *testing.T) {
	reads := Tool{Name: "reads", Approve: ApproveWrites, Effect: ReadOnly, Run: echo.Run}
	writes := Tool{Name: "writes", Approve: ApproveWrites, Run: echo.Run}
	b := newBroker(t, Options{}, reads, writes)
	if a := ask(b, "reads", "{}"); a.Err != nil {
		t.Error(a.Err)
	}
	refused(t, ask(b, "writes", "{}"), CodeNobodyToAsk, "nobody to ask")
}

// A grant covers N calls of one tool, and those that were already waiting for
// their own question, too.
func TestGrants(t *testing.T) {
	var questions atomic.Int64
	other := asked
	other.Name = "other"
	b := newBroker(t, Options{MaxCalls: NoLimit, Approver: decider(func(context.Context, Question) (Decision, error) {
		questions.Add(1)
		time.Sleep(20 * time.Millisecond)
		return Decision{Verdict: Allow, For: 5, By: "ann"}, nil
	})}, asked, other)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if a := ask(b, "pay", "{}"); a.Err != nil {
				t.Error(a.Err)
			}
		})
	}
	wg.Wait()
	if n := questions.Load(); n != 2 {
		t.Errorf("asked %d times for 10 calls, 5 at once", n)
	}
	ask(b, "other", "{}")
	if n := questions.Load(); n != 3 {
		t.Errorf("a grant of one tool covers another: asked %d times", n)
	}
	by := map[string]int{}
	for _, r := range b.Summary().Calls {
		by[r.Approval.By]++
	}
	if by["ann"] != 3 || by["grant"] != 8 {
		t.Errorf("decided by %v", by)
	}
}

// Three denials in 600 s, and nobody is asked any more until they are over.
func TestDenialLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		questions := 0
		b := newBroker(t, Options{MaxCalls: NoLimit, Approver: decider(func(context.Context, Question) (Decision, error) {
			questions++
			return Decision{}, nil
		})}, asked)
		for range 3 {
			refused(t, ask(b, "pay", "{}"), CodeDenied, "denied")
			time.Sleep(time.Minute)
		}
		for range 5 {
			refused(t, ask(b, "pay", "{}"), CodeDenialLimit, "without asking")
		}
		if questions != 3 {
			t.Errorf("asked %d times", questions)
		}
		if by := b.Summary().Calls[5].Approval.By; by != "denial-limit" {
			t.Errorf("decided by %s", by)
		}
		time.Sleep(DenialWindow - 2*time.Minute)
		refused(t, ask(b, "pay", "{}"), CodeDenied, "denied")
		b.Close()
	})
}

// A program whose questions nobody answers kept its clock stopped for 300 s per
// call: a denial was forgotten before the third question had timed out.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		questions, held := 0, time.Duration(0)
		b := newBroker(t, Options{MaxCalls: NoLimit, Hold: func() func() {
			begun := time.Now()
			return func() { held += time.Since(begun) }
		}, Approver: decider(func(ctx context.Context, _ Question) (Decision, error) {
			questions++
			<-ctx.Done()
			return Decision{}, ctx.Err()
		})}, asked)
		for range 3 {
			refused(t, ask(b, "pay", "{}"), CodeApprovalWait, "nobody decided")
		}
		for range 47 {
			refused(t, ask(b, "pay", "{}"), CodeDenialLimit, "without asking")
		}
		if questions != 3 || held != 3*DefaultApprovalWait {
			t.Errorf("asked %d times, the clock stood for %v", questions, held)
		}
		time.Sleep(DenialWindow + time.Second)
		refused(t, ask(b, "pay", "{}"), CodeApprovalWait, "nobody decided")
		b.Close()
	})
}

// Who changes the arguments of a call and allows five has not seen the others.
func TestEditedGrant(t *testing.T) {
	questions := 0
	b := newBroker(t, Options{Approver: decider(func(context.Context, Question) (Decision, error) {
		questions++
		return Decision{Verdict: Allow, For: 5, Args: json.RawMessage(`{"to":"/safe"}`)}, nil
	})}, asked)
	for range 3 {
		if a := ask(b, "pay", `{"to":"/evil"}`); string(a.Value) != `{"to":"/safe"}` {
			t.Errorf("%s, %v", a.Value, a.Err)
		}
	}
	if questions != 3 {
		t.Errorf("asked %d times", questions)
	}
}

// A call that was answered before its turn came asks nobody, and its record
// stays what it is.
func TestAnsweredBeforeItsTurn(t *testing.T) {
	b := newBroker(t, Options{Approver: decider(func(context.Context, Question) (Decision, error) {
		t.Error("somebody was asked")
		return Decision{}, nil
	})}, asked)
	c := b.admit(incoming{Request: Request{ID: "a", Tool: "pay"}, args: map[string]any{}}, func(Answer) {})
	b.mu.Lock()
	b.active-- // nobody runs it before Close
	b.mu.Unlock()
	b.Close()
	c.run()
	if r := b.Summary().Calls[0]; r.State != Refused || r.Code != CodeClosed || r.Approval != nil {
		t.Errorf("%+v", r)
	}
}

// The end of the run ends the wait for a person who does not listen.
func TestCloseWhileAsking(t *testing.T) {
	release, open := make(chan struct{}), make(chan struct{})
	b := newBroker(t, Options{Approver: decider(func(context.Context, Question) (Decision, error) {
		close(open)
		<-release
		return Decision{Verdict: Allow}, nil
	})}, asked)
	answers := make(chan Answer)
	go func() { answers <- ask(b, "pay", "{}") }()
	<-open
	if s := b.Summary().Calls[0].State; s != Waiting {
		t.Errorf("state %s", s)
	}
	b.Close()
	refused(t, <-answers, CodeClosed, "ended")
	close(release)
	if s := b.Summary(); s.Refused != 1 || s.Unknown != 0 || s.Calls[0].State != Refused {
		t.Errorf("%+v", s)
	}
}

func TestWordsAreComplete(t *testing.T) {
	for code, w := range catalogue {
		if w.text == "" || w.class == "" || strings.ContainsAny(w.text, "\n/") {
			t.Errorf("%s: %+v", code, w)
		}
	}
	for code, want := range map[Code]Class{CodeDenied: Denied, CodeDuplicateID: InvalidArguments, CodeTimeout: Timeout, CodeNoSpace: Limit, CodeLog: Failed, CodeClosed: Closed} {
		if got := fault(code).Class; got != want {
			t.Errorf("%s is %s", code, got)
		}
	}
}

// The program learns why it was refused, in text that can be shown.
func TestDenialReason(t *testing.T) {
	reason := " only for \x1b[31mEurope\u202e" + strings.Repeat("!", 2*reasonMax)
	b := newBroker(t, Options{Approver: decider(func(context.Context, Question) (Decision, error) {
		return Decision{By: "ann", Reason: reason}, nil
	})}, asked)
	a := ask(b, "pay", "{}")
	refused(t, a, CodeDenied, "the call was denied: only for \uFFFD[31mEurope\uFFFD!!!")
	var details struct{ Reason string }
	must(t, json.Unmarshal(a.Err.Details, &details))
	if !strings.HasPrefix(details.Reason, "only for \uFFFD[31m") || len(details.Reason) > reasonMax+8 || strings.Contains(a.Err.Message+string(a.Err.Details), "ann") {
		t.Errorf("message %q, details %s", a.Err.Message, a.Err.Details)
	}
}
