package netd

import (
	"bytes"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/waiter"

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

// What a server says behind urgent data is heard although the server then waits
// (tcp(7): a read stops at the mark). The urgent byte itself stays with us, as
// with every proxy.
func TestRelayPastUrgentData(t *testing.T) {
	b := newBed(t, restricted(tcpRule("a.example")))
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, func(c net.Conn) {
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		for p := make([]byte, 1); ; {
			if _, err := c.Read(p); err != nil {
				return
			}
			_ = raw.Control(func(fd uintptr) {
				// all of it comes at once
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1)
				_, _ = unix.Write(int(fd), []byte("before"))
				_ = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil)
				_, _ = unix.Write(int(fd), []byte("behind"))
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 0)
			})
		}
	}))
	c := b.mustReach("a.example", 7)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	for i := range 200 {
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len("beforebehind"))
		if n, err := io.ReadFull(c, got); err != nil || string(got) != "beforebehind" {
			t.Fatalf("answer %d: got %q, %v", i, got[:n], err)
		}
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

// narrow is an end point with room for so much.
type narrow struct {
	tcpip.Endpoint
	room   int
	got    []byte
	closed bool
}

func (e *narrow) Write(p tcpip.Payloader, _ tcpip.WriteOptions) (int64, tcpip.Error) {
	if e.room == 0 {
		return 0, &tcpip.ErrWouldBlock{}
	}
	b := make([]byte, min(e.room, p.Len()))
	n, err := io.ReadFull(p, b)
	if err != nil {
		return 0, &tcpip.ErrBadBuffer{}
	}
	e.room -= n
	e.got = append(e.got, b...)
	return int64(n), nil
}

func (e *narrow) Shutdown(tcpip.ShutdownFlags) tcpip.Error { e.closed = true; return nil }

// Little and much of what a server says arrives whole and in order, whatever
// room there is, and its end comes behind it.
func TestRelayOfLittleAndMuch(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	ep := &narrow{}
	r := &relay{loop: &loop{}, flow: &flow{}, in: &inside{ep: ep}, fd: pair[0]}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	var sent []byte
	turn := func(room int) {
		ep.room += room
		if err := r.receive(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		b := make([]byte, 1+random.IntN([]int{10, 1000, little, 4 * little}[random.IntN(4)]))
		_, _ = rand.Read(b)
		if n, err := unix.Write(pair[1], b); err == nil { // it may be full
			sent = append(sent, b[:n]...)
			r.saw(unix.EPOLLIN)
		}
		turn(random.IntN(2 * little))
		if ep.room > 0 && (r.readable || len(r.rest) > 0) {
			t.Fatalf("%d bytes of room, and it waits", ep.room)
		}
	}
	unix.Close(pair[1])
	r.saw(unix.EPOLLIN | unix.EPOLLRDHUP)
	for i := 0; !ep.closed && i < 10000; i++ {
		turn(random.IntN(2 * little))
	}
	if !ep.closed || !bytes.Equal(ep.got, sent) || r.flow.in.Load() != int64(len(sent)) {
		t.Errorf("%d of %d bytes arrived, counted %d, ended %v", len(ep.got), len(sent), r.flow.in.Load(), ep.closed)
	}
}

// What the stack says of a flow before the loop has it ends nothing: a flow that
// failed just then stayed in the loop, and the end of the network was a panic.
func TestRelayIsToldBeforeItIsTakenIn(t *testing.T) {
	l, err := newLoop()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	up, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{loop: l, up: up, done: make(chan struct{})}
	r.turn = func(uintptr) { r.failed = errStack }
	r.NotifyEvent(waiter.EventHUp)
	l.work()
	if err := l.add(r, int(ours.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := l.start(nil); err != nil {
		t.Fatal(err)
	}
	<-r.done
	r.NotifyEvent(waiter.EventHUp)
	l.close()
	if len(l.relays) > 0 || r.failed != errStack {
		t.Errorf("%d relays are left, and this one ended by %v", len(l.relays), r.failed)
	}
}
