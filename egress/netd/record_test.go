package netd

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// The program's handshake need not wait for the record, but no byte goes either
// way before it is durable.
func TestNothingGoesBeforeTheRecord(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	got := make(chan byte, 1)
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		defer c.Close()
		_, _ = c.Write([]byte("s"))
		var p [1]byte
		if _, err := io.ReadFull(c, p[:]); err == nil {
			got <- p[0]
		}
	}))
	end := b.log.waits()
	defer end()
	c := b.mustReach("a.example", 7)
	if _, err := c.Write([]byte("c")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	var late net.Error
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("the program has read %d bytes: %v", n, err)
	}
	select {
	case <-got:
		t.Error("the server has got a byte")
	default:
	}
	end()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	p := make([]byte, 1)
	if _, err := io.ReadFull(c, p); err != nil || p[0] != 's' || <-got != 'c' {
		t.Errorf("after the record: %q, %v", p, err)
	}
}

// What a program says first waits, too; the dial does not.
func TestDialWhileRecorded(t *testing.T) {
	b := newBed(t, restricted(egress.Rule{Name: "a.example"}))
	b.world.name("a.example", "9.9.9.9")
	got := make(chan byte, 1)
	b.world.server("9.9.9.9:443", listen(t, func(c net.Conn) {
		var p [1]byte
		if _, err := io.ReadFull(c, p[:]); err == nil {
			got <- p[0]
		}
	}))
	end := b.log.waits()
	defer end()
	c := b.mustReach("a.example", 443)
	go tls.Client(c, &tls.Config{ServerName: "a.example"}).Handshake()
	if e := b.event(egress.EventOpen, ""); e.Dial.String() != "9.9.9.9:443" || e.SNI != "a.example" {
		t.Errorf("got %+v", e)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, dials := b.world.touched(); len(dials) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is dialled before the record is durable")
		}
	}
	select {
	case <-got:
		t.Error("the server has got a byte")
	case <-time.After(100 * time.Millisecond):
	}
	end()
	if p := <-got; p != 22 { // a handshake
		t.Errorf("after the record: %d", p)
	}
}

// Every address that is dialled is recorded, and a connection that never came
// about is denied, and none that was opened.
func TestRecordsOfDials(t *testing.T) {
	for _, c := range []struct {
		addrs, dialled []string
		reason         egress.Reason
		flows, denied  uint64
	}{
		{[]string{"9.9.9.1"}, []string{"9.9.9.1:7"}, egress.ReasonDialFailed, 0, 1},
		{[]string{"9.9.9.1", "9.9.9.2"}, []string{"9.9.9.1:7", "9.9.9.2:7"}, egress.ReasonDialFailed, 0, 1},
		{[]string{"9.9.9.1", "9.9.9.9", "9.9.9.2"}, []string{"9.9.9.1:7", "9.9.9.9:7"}, "", 1, 0},
	} {
		b := newBed(t, restricted(tcpRule("a.example")))
		b.world.name("a.example", c.addrs...)
		b.world.server("9.9.9.9:7", listen(t, echo))
		if conn, err := b.reach("a.example", 7); (err == nil) != (c.flows == 1) {
			t.Errorf("%v: %v", c.addrs, err)
		} else if err == nil {
			conn.Close()
		}
		end := b.event(egress.EventClose, c.reason)
		var sum egress.Summary
		var opened []string
		for _, e := range b.log.all() {
			sum.Add(e)
			if e.Type == egress.EventOpen {
				opened = append(opened, e.Dial.String())
			}
		}
		if !slices.Equal(opened, c.dialled) || end.Dial.String() != c.dialled[len(c.dialled)-1] {
			t.Errorf("%v: opened to %v, ended with %s", c.addrs, opened, end.Dial)
		}
		if sum.Flows != c.flows || sum.Denied != c.denied {
			t.Errorf("%v: %+v", c.addrs, sum)
		}
	}
}

// D 71
func TestFailingLogFailsClosed(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	old := b.mustReach("a.example", 7)
	b.log.breaks()
	c, err := b.dial(old.RemoteAddr().String())
	refusedBy(t, b, c, err, egress.ReasonAudit)
	b.event(egress.EventStop, egress.ReasonAudit)
	_ = old.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := old.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(old, make([]byte, 1)); err != nil {
		t.Errorf("an old flow: %v", err)
	}
}
