package approve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bridge"
)

// typing is a terminal at which text is typed; what is printed goes to out.
func typing(t *testing.T, text string) (*Terminal, *bytes.Buffer, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	return NewTerminal(r, out), out, w
}

func TestTerminalAnswers(t *testing.T) {
	for typed, want := range map[string]bridge.Decision{
		"y\n":                     {Verdict: bridge.Allow, For: 1},
		"  YES \n":                {Verdict: bridge.Allow, For: 1},
		"5\n":                     {Verdict: bridge.Allow, For: 5},
		"n\n":                     {},
		"\n":                      {},
		"no not today\n":          {Reason: "not today"},
		"what\n0\n-1\n10001\ny\n": {Verdict: bridge.Allow, For: 1},
		"a\nb\nc\nd\ne2\ny\n":     {Reason: "no answer that was understood"},
		"y please\nn\n":           {},
		"s\nn\n":                  {}, // nothing more to show
		"e\n{\"path\":\"y\"}\n":   {Verdict: bridge.Allow, For: 1, Args: json.RawMessage(`{"path":"y"}`)},
		"e\nnull\ne\n{\"a\":1}\n": {Verdict: bridge.Allow, For: 1, Args: json.RawMessage(`{"a":1}`)},
		"e\n\nn\n":                {},
		"edit\n[1]\n7\n":          {Verdict: bridge.Allow, For: 7},
	} {
		term, _, _ := typing(t, typed)
		want.By = "terminal"
		got, err := term.Approve(within(t, 20*time.Second), question)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%q: got %+v, %v, want %+v", typed, got, err, want)
		}
	}
}

// The end of the input is no yes, with or without a half line.
func TestTerminalEnds(t *testing.T) {
	for typed, want := range map[string]bridge.Verdict{"": bridge.Deny, "ye": bridge.Deny, "e\n": bridge.Deny, "y": bridge.Allow} {
		term, _, w := typing(t, typed)
		w.Close()
		if d, err := term.Approve(within(t, 20*time.Second), question); d.Verdict != want || typed == "" && err == nil {
			t.Errorf("%q: got %+v, %v", typed, d, err)
		}
	}
}

func TestTerminalWaitEnds(t *testing.T) {
	term, _, w := typing(t, "")
	if d, err := term.Approve(within(t, 100*time.Millisecond), question); !errors.Is(err, context.DeadlineExceeded) || d.Verdict != bridge.Deny {
		t.Errorf("got %+v, %v", d, err)
	}
	// The next question is answered by what is typed for it.
	if _, err := w.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if d, err := term.Approve(within(t, 20*time.Second), question); err != nil || d.Verdict != bridge.Allow {
		t.Errorf("got %+v, %v", d, err)
	}
}

// One question at a time, and a question whose wait ends does not hold the turn.
func TestTerminalTakesTurns(t *testing.T) {
	term, out, w := typing(t, "")
	var wait sync.WaitGroup
	verdicts := make(chan bridge.Verdict, 10)
	for range 10 {
		wait.Go(func() {
			d, _ := term.Approve(within(t, 20*time.Second), question)
			verdicts <- d.Verdict
		})
	}
	if d, err := term.Approve(within(t, 50*time.Millisecond), question); err == nil || d.Verdict != bridge.Deny {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := w.WriteString(strings.Repeat("y\nn\n", 5)); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
	close(verdicts)
	allowed := 0
	for v := range verdicts {
		allowed += int(v)
	}
	if allowed != 5 {
		t.Errorf("%d of 10 were allowed, want 5", allowed)
	}
	for _, part := range strings.Split(out.String(), "--- isolate")[1:] {
		if n := strings.Count(part, "[n]"); n != 1 {
			t.Errorf("%d prompts for one question:\n%s", n, part)
		}
	}
}

func TestTerminalShows(t *testing.T) {
	term, out, _ := typing(t, "n\n")
	q := question
	q.Tool, q.Source, q.Description = "t\x1b[2J", "a\rb", "first\n\nsecond \u202e"
	q.Args = json.RawMessage(`{"a":"\u001b]52;c;x\u0007","b":["` + "\u202e\u200b\u2028\u00a0\u3164\U000e0041é漢" + `"],"c":1e400}`)
	if _, err := term.Approve(within(t, 20*time.Second), q); err != nil {
		t.Fatal(err)
	}
	want := plain + `
--- isolate: may the program call this tool? ---
tool       t�[2J
from       a�b
says       first  second �
call       7, id a1
arguments
  {
    "a": "\u001b]52;c;x\u0007",
    "b": [
      "\u202e\u200b\u2028\u00a0\u3164\udb40\udc41é漢"
    ],
    "c": 1e400
  }
y: once  NUMBER: that many calls  e: edit  n REASON: no [n] `
	if out.String() != want {
		t.Errorf("shown\n%s\nwant\n%s", out, want)
	}
}

// What is long is not cut in silence.
func TestTerminalShowsAll(t *testing.T) {
	term, out, _ := typing(t, "s\nn\n")
	q := question
	q.Args = json.RawMessage(`{"a":"` + strings.Repeat("é", 10_000) + `MIDDLE` + strings.Repeat("x", 20_000) + `"}`)
	if _, err := term.Approve(within(t, 20*time.Second), q); err != nil {
		t.Fatal(err)
	}
	first, rest, found := strings.Cut(out.String(), "[n]")
	if !found || !strings.Contains(first, "NOT SHOWN") || strings.Contains(first, "MIDDLE") || len(first) > 8<<10 || !strings.Contains(rest, "MIDDLE") {
		t.Errorf("first %d bytes: %.300s", len(first), first)
	}
}

// At a real terminal, what was typed before the question is not an answer.
func TestTypedAhead(t *testing.T) {
	master, slave := pty(t)
	term := NewTerminal(slave, slave)
	if _, err := master.WriteString("y\ny\n"); err != nil {
		t.Fatal(err)
	}
	if d, err := term.Approve(within(t, 300*time.Millisecond), question); !errors.Is(err, context.DeadlineExceeded) || d.Verdict != bridge.Deny {
		t.Errorf("got %+v, %v", d, err)
	}
	go func() {
		var shown []byte
		for p := make([]byte, 4096); bytes.Count(shown, []byte("[n] ")) < 2; {
			n, err := master.Read(p)
			if err != nil {
				return
			}
			shown = append(shown, p[:n]...)
		}
		_, _ = master.WriteString("3\n")
	}()
	if d, err := term.Approve(within(t, 20*time.Second), question); err != nil || d.For != 3 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}
