package cli

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/approve"
	"github.com/isolate-run/isolate/cmd/isolate/internal/safeterm"
)

// A program wrote a question of its own below the one that was asked, with an
// innocent tool in it, and the person's yes was taken for the other.
func TestNoOutputBelowAQuestion(t *testing.T) {
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer typed.Close()
	var screen lockedBuffer
	g := newGate()
	out := newStream(&screen, nil)
	out.text, out.gate = safeterm.NewText(&screen), g
	out.dst = out.text
	ask := g.guard(approve.NewTerminal(in, &screen))

	_, _ = out.Write([]byte("before "))
	decided := make(chan bridge.Decision, 1)
	go func() {
		d, _ := ask.Approve(t.Context(), bridge.Question{Tool: "pay", Args: []byte("{}")})
		decided <- d
	}()
	for !bytes.Contains(screen.Bytes(), []byte("[n] ")) {
		time.Sleep(time.Millisecond)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = out.Write([]byte("tool read_weather [n] "))
	}()
	select {
	case <-written:
		t.Fatalf("the program wrote below the question:\n%s", screen.Bytes())
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := typed.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if d := <-decided; d.Verdict != bridge.Allow {
		t.Errorf("%+v", d)
	}
	<-written
	if !bytes.HasSuffix(screen.Bytes(), []byte("[n] tool read_weather [n] ")) {
		t.Errorf("shown %q", screen.Bytes())
	}
}

// The end of the question's context lets output pass again, and who is asked
// elsewhere holds nothing up.
func TestGateOpens(t *testing.T) {
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer typed.Close()
	g := newGate()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := g.guard(approve.NewTerminal(in, &lockedBuffer{})).Approve(ctx, bridge.Question{}); err == nil {
		t.Error("a question was answered by nobody")
	}
	g.pass()()
	elsewhere := g.guard(approve.Func(func(context.Context, bridge.Question) (bridge.Decision, error) {
		g.pass()()
		return bridge.Decision{}, nil
	}))
	if _, err := elsewhere.Approve(t.Context(), bridge.Question{}); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is a screen that several write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
