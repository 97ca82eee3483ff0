package netd

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// flow is one connection of the program's on its way out.
type flow struct {
	network *Network
	id      uint64
	via     egress.Via
	dst     netip.AddrPort // as the program addressed it
	chosen  netip.Addr     // of the addresses of a name; invalid if the program has none
	began   time.Time

	f    egress.Flow
	d    egress.Decision
	gen  uint64
	live *egress.Live

	in, out atomic.Int64 // bytes to and from the program
	last    atomic.Int64 // when a byte went either way, Unix nanoseconds

	mu       sync.Mutex
	cutFor   egress.Reason         // why it was cut
	cuts     []func()              // what has to be cut
	ups      map[*counted]struct{} // what is open upstream
	opened   bool                  // its opening was announced
	reached  bool                  // somebody has answered
	dialled  netip.AddrPort
	released bool
}

// newFlow judges where a flow goes to.
func (n *Network) newFlow(via egress.Via, dst netip.AddrPort, f egress.Flow) *flow {
	fl := &flow{network: n, id: n.flows.Add(1), via: via, dst: dst, f: f, chosen: f.Host.Addr, began: time.Now()}
	if g := n.judge.Current(); g != nil {
		fl.gen = g.Number
	}
	if !n.rate.take() {
		fl.d = egress.Decision{Verdict: egress.Refuse, Reason: egress.ReasonLimitRate}
		return fl
	}
	live, d := n.judge.Open(f, fl.cut)
	fl.live = live
	fl.judged(d)
	return fl
}

// judged takes a decision, which may say whom the flow is to.
func (fl *flow) judged(d egress.Decision) {
	fl.d = d
	if d.Host != (egress.Host{}) {
		fl.f.Host, fl.f.Names = d.Host, nil
	}
}

// cut ends the flow at once, on both sides.
func (fl *flow) cut(r egress.Reason) {
	fl.mu.Lock()
	if fl.cutFor == "" {
		fl.cutFor = r
	}
	cuts := fl.cuts
	fl.cuts = nil
	ups := slices.Collect(maps.Keys(fl.ups))
	fl.mu.Unlock()
	for _, c := range cuts {
		c()
	}
	for _, c := range ups {
		abort(c)
	}
}

// closeUps closes what is open upstream.
func (fl *flow) closeUps() {
	fl.mu.Lock()
	ups := slices.Collect(maps.Keys(fl.ups))
	fl.mu.Unlock()
	for _, c := range ups {
		_ = c.Close()
	}
}

// onCut adds what has to be cut. If the flow has been cut already, it is at once.
func (fl *flow) onCut(c func()) {
	fl.mu.Lock()
	if fl.cutFor == "" {
		fl.cuts = append(fl.cuts, c)
		c = nil
	}
	fl.mu.Unlock()
	if c != nil {
		c()
	}
}

func (fl *flow) cutReason() egress.Reason {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.cutFor
}

// event is an event about the flow.
func (fl *flow) event(kind string) egress.Event {
	return egress.Event{Type: kind, Gen: fl.gen, Flow: fl.id, Via: fl.via, Proto: string(fl.f.Transport),
		Name: string(fl.f.Host.Name), Dst: fl.dst, Port: fl.f.Port, Rule: fl.d.Rule}
}

// refused notes that the flow was denied.
func (fl *flow) refused() {
	e := fl.event(egress.EventDeny)
	e.Reason, e.Class, e.Hint = fl.d.Reason, fl.d.Class, fl.d.Hint
	if p := fl.f.Peek; p != nil {
		e.SNI, e.Host = p.Server, p.Host
	}
	if fl.f.Host.Name == "" && !e.Dst.IsValid() && fl.f.Host.Addr.IsValid() {
		e.Dst = netip.AddrPortFrom(fl.f.Host.Addr, fl.f.Port)
	}
	fl.network.events.deny(e)
}

// refine judges again with what is known now.
func (fl *flow) refine() bool {
	fl.judged(fl.live.Refine(fl.f))
	if reason := fl.cutReason(); reason != "" && !fl.d.Allowed() {
		fl.d.Reason = reason
	}
	return fl.d.Allowed()
}

// errRefused means that the decision of the flow says why.
var errRefused = errors.New("refused")

// connect resolves, judges, dials, and makes the opening durable: no byte goes
// to an address that was not judged, or unrecorded.
func (fl *flow) connect(ctx context.Context, network string) (*counted, error) {
	up, recorded, err := fl.reach(ctx, network)
	if err != nil {
		return nil, err
	}
	if err := recorded(); err != nil {
		return nil, err
	}
	return up, nil
}

// reach is connect without waiting for the record, which is made while the dial
// goes on. recorded returns when it is durable, before which no byte may go
// either way. If that fails, or the flow was cut meanwhile, what was dialled is
// closed.
func (fl *flow) reach(ctx context.Context, network string) (up *counted, recorded func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, fl.network.times.Dial)
	defer cancel()
	for {
		kept := fl.resolve(ctx)
		if !fl.refine() {
			fl.network.answers.forget(fl.f.Host.Name)
			return nil, nil, errRefused
		}
		conn, durable, err := fl.dial(ctx, network)
		if err == nil {
			fl.reached = true
			up = fl.opens(conn)
			return up, func() error { return fl.recorded(up, durable) }, nil
		}
		fl.network.answers.forget(fl.f.Host.Name) // it may have moved
		if kept && ctx.Err() == nil && fl.network.rate.take() {
			continue
		}
		fl.d.Verdict, fl.d.Reason = egress.Refuse, egress.ReasonDialFailed
		if errors.Is(err, errOwn) {
			fl.d.Reason, fl.d.Class = egress.ReasonAddrDenied, egress.ClassHost
		}
		return nil, nil, errRefused
	}
}

// recorded waits for the record of what was dialled.
func (fl *flow) recorded(up *counted, durable func() error) error {
	reason := egress.ReasonAudit
	if durable() == nil {
		reason = fl.cutReason()
	}
	if reason == "" {
		return nil
	}
	abort(up)
	fl.d.Verdict, fl.d.Reason = egress.Refuse, reason
	return errRefused
}

// announce hands over the record of the opening, with the address that is about
// to be dialled, and returns what waits until it is durable.
func (fl *flow) announce(to netip.AddrPort) (durable func() error) {
	e := fl.event(egress.EventOpen)
	e.Verdict, e.Dial, e.Again = egress.Allow, to, fl.opened
	if p := fl.f.Peek; p != nil {
		e.SNI, e.ALPN = p.Server, strings.Join(p.ALPN, ",")
	}
	if !fl.opened {
		fl.opened = true
		fl.network.open.Add(1)
	}
	fl.dialled = to
	return fl.network.events.durable(e)
}

// resolve finds the addresses of the flow's host. That of a granted port of this
// machine needs none. kept says that they were found by an earlier flow.
func (fl *flow) resolve(ctx context.Context) (kept bool) {
	n := fl.network
	switch name := fl.f.Host.Name; name {
	case egress.HostName:
		return false
	case "":
		fl.f.Addrs = []netip.Addr{fl.f.Host.Addr}
	default:
		addrs := n.answers.get(name, time.Now())
		if kept = addrs != nil; !kept {
			if a, err := n.lookup(ctx, name); err == nil {
				addrs = a.Addrs
				n.answers.keep(name, a, time.Now())
			}
		}
		fl.f.Addrs = prefer(addrs, fl.chosen)
	}
	fl.f.Resolved = true
	return kept
}

// lookup finds the addresses of a name.
func (n *Network) lookup(ctx context.Context, name egress.Name) (Answer, error) {
	n.loop.guests.Add(1)
	defer n.loop.guests.Add(-1)
	return n.options.Upstream.Lookup(ctx, name)
}

// dial connects to the first of the addresses that answers. Each is announced
// before it is sent anything; durable is of the one that has answered.
func (fl *flow) dial(ctx context.Context, network string) (conn net.Conn, durable func() error, err error) {
	up := fl.network.options.Upstream
	fl.network.loop.guests.Add(1)
	defer fl.network.loop.guests.Add(-1)
	if fl.f.Host.Name == egress.HostName {
		if conn, err = up.Loopback(ctx, fl.f.Port); err != nil {
			return nil, nil, err
		}
		to, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		return conn, fl.announce(to), nil
	}
	err = errors.New("no address")
	for i, a := range fl.f.Addrs {
		if i > 0 && !fl.network.rate.take() { // each has a record, as a flow has
			break
		}
		to := netip.AddrPortFrom(a, fl.f.Port)
		durable = nil
		conn, err = up.Dial(ctx, network, to, func() { durable = fl.announce(to) })
		if err == nil {
			return conn, durable, nil
		}
	}
	return nil, nil, err
}

// opens remembers a connection to the outside until it is closed.
func (fl *flow) opens(conn net.Conn) *counted {
	c := &counted{Conn: conn, flow: fl}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.ups == nil {
		fl.ups = map[*counted]struct{}{}
	}
	fl.ups[c] = struct{}{}
	return c
}

// abort closes a connection so that the other side sees an error.
func abort(c net.Conn) {
	if a, ok := c.(interface{ Abort() }); ok {
		a.Abort()
		return
	}
	if t, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// done ends the flow's life; what was opened gets its closing event.
func (fl *flow) done() {
	fl.mu.Lock()
	again := fl.released
	fl.released = true
	fl.mu.Unlock()
	if again {
		return
	}
	if fl.live != nil {
		fl.live.Close()
	}
	if !fl.opened {
		return
	}
	e := fl.event(egress.EventClose)
	e.Dial, e.BytesIn, e.BytesOut, e.Took = fl.dialled, fl.in.Load(), fl.out.Load(), time.Since(fl.began)
	if e.Reason = fl.cutReason(); e.Reason == "" && !fl.reached {
		e.Reason = egress.ReasonDialFailed
	}
	fl.network.events.note(e)
	fl.network.open.Add(-1)
}

// counted counts what goes over an upstream connection.
type counted struct {
	net.Conn
	flow *flow
}

func (c *counted) Read(b []byte) (int, error) {
	c.flow.network.loop.guests.Add(1)
	n, err := c.Conn.Read(b)
	c.flow.network.loop.guests.Add(-1)
	c.flow.in.Add(int64(n))
	c.flow.last.Store(time.Now().UnixNano())
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	if !c.flow.live.Sent(int64(len(b))) {
		c.flow.cut(egress.ReasonRuleExhausted)
		return 0, net.ErrClosed
	}
	c.flow.network.loop.guests.Add(1)
	n, err := c.Conn.Write(b)
	c.flow.network.loop.guests.Add(-1)
	c.flow.out.Add(int64(n))
	c.flow.last.Store(time.Now().UnixNano())
	return n, err
}

// Close closes it; the flow forgets it.
func (c *counted) Close() error {
	c.flow.mu.Lock()
	delete(c.flow.ups, c)
	c.flow.mu.Unlock()
	return c.Conn.Close()
}

// raw gives access to the socket, for who counts by himself.
func (c *counted) raw() (syscall.RawConn, error) {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("the upstream connection is no socket")
	}
	return s.SyscallConn()
}

// CloseWrite ends one direction.
func (c *counted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// SetLinger lets abort through.
func (c *counted) SetLinger(s int) error {
	if t, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return t.SetLinger(s)
	}
	return nil
}
