package netd

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// What goes through a relay arrives whole, both ways at once, with a server that
// takes its time: both sides are full again and again.
func TestRelayCarriesAll(t *testing.T) {
	const size = 8 << 20
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		defer c.Close()
		for p := make([]byte, 100_000); ; time.Sleep(time.Millisecond) {
			n, err := c.Read(p)
			if _, werr := c.Write(p[:n]); err != nil || werr != nil {
				return
			}
		}
	}))
	c := b.mustReach("a.example", 7)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes came back, the same is %v: %v", len(got), size, bytes.Equal(got, sent), err)
	}
	c.Close()
	end := b.event(egress.EventClose, "")
	if end.BytesIn != size || end.BytesOut != size {
		t.Errorf("counted %d in and %d out", end.BytesIn, end.BytesOut)
	}
}

// A server that says something and ends at once is heard.
func TestRelayOfLastWords(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("bye"))
		c.Close()
	}))
	for range 50 {
		c := b.mustReach("a.example", 7)
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
			t.Fatalf("got %q, %v", got, err)
		}
		c.Close()
	}
}

// Not one byte more than the rule gives leaves.
func TestRelayStopsAtTheRulesEnd(t *testing.T) {
	rule := tcpRule("a.example")
	rule.MaxBytesOut = 100_000
	b := newBed(t, restricted(rule))
	b.world.name("a.example", "9.9.9.9")
	got := make(chan int64, 1)
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}))
	c := b.mustReach("a.example", 7)
	for range 20 {
		if _, err := c.Write(make([]byte, 10_000)); err != nil {
			break
		}
	}
	if n := <-got; n > 100_000 {
		t.Errorf("%d bytes left", n)
	}
	if end := b.event(egress.EventClose, egress.ReasonRuleExhausted); end.BytesOut > 100_000 {
		t.Errorf("counted %d", end.BytesOut)
	}
}
