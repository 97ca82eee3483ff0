package netd

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/isolate-run/isolate/egress"
)

func TestAnswerTable(t *testing.T) {
	one, now := []netip.Addr{netip.MustParseAddr("9.9.9.9")}, time.Now()
	table := newAnswerTable()
	for name, a := range map[egress.Name]Answer{"short": {one, time.Second}, "long": {one, time.Hour}, "never": {one, 0}, "nothing": {nil, time.Hour}, "much": {make([]netip.Addr, maxFound+1), time.Hour}} {
		table.keep(name, a, now)
	}
	has := func(at time.Time) (names []string) {
		for _, n := range []egress.Name{"short", "long", "never", "nothing", "much"} {
			if table.get(n, at) != nil {
				names = append(names, string(n))
			}
		}
		return names
	}
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{{0, []string{"short", "long"}}, {time.Second, []string{"long"}}, {keepFor - 1, []string{"long"}}, {keepFor, nil}} {
		if got := has(now.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("after %s: kept %v, want %v", c.after, got, c.want)
		}
	}
	for i := range 2 * maxAnswers {
		table.keep(egress.Name(fmt.Sprint(i)), Answer{one, time.Second}, now)
	}
	if table.keep("late", Answer{one, time.Second}, now); len(table.of) != maxAnswers {
		t.Errorf("%d answers are kept", len(table.of))
	}
	if table.keep("late", Answer{one, time.Second}, now.Add(time.Second)); len(table.of) != 1 {
		t.Errorf("%d answers are kept when their time is over", len(table.of))
	}
}

// An answer may be kept as long as all of it may be.
func TestTimeOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		ttls []uint32
		want time.Duration
	}{{nil, keepFor}, {[]uint32{300}, keepFor}, {[]uint32{20, 5, 30}, 5 * time.Second}, {[]uint32{20, 0}, 0}} {
		m := new(dns.Msg)
		for i, ttl := range c.ttls {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "a.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl}, A: []byte{9, 9, 9, byte(i)}})
		}
		if a := addresses(m); a.TTL != c.want || len(a.Addrs) != len(c.ttls) {
			t.Errorf("%v: got %+v", c.ttls, a)
		}
	}
}

// D 42, 45: what is kept of a look-up is judged each time, and a name that has
// moved is found again.
func TestAnswersAreKept(t *testing.T) {
	private := tcpRule("a.example")
	private.Private = []string{"10.0.0.0/8"}
	b := newBed(t, restricted(private))
	b.world.ttl = time.Hour
	looked := func(want int) {
		t.Helper()
		if l, _ := b.world.touched(); len(l) != want {
			t.Errorf("looked up %v, want %d", l, want)
		}
	}
	b.world.name("a.example", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	for range 3 {
		b.mustReach("a.example", 7).Close()
	}
	looked(1)

	b.world.name("a.example", "10.0.0.5")
	b.world.server("10.0.0.5:7", listen(t, echo))
	b.world.mu.Lock()
	delete(b.world.servers, netip.MustParseAddrPort("9.9.9.9:7"))
	b.world.mu.Unlock()
	for range 2 {
		b.mustReach("a.example", 7).Close()
	}
	looked(2)

	b.set(2, restricted(tcpRule("a.example")))
	_, before := b.world.touched()
	for i := range 2 { // and what was refused is not kept
		c, err := b.reach("a.example", 7)
		refusedBy(t, b, c, err, egress.ReasonAddrDenied)
		looked(2 + i)
	}
	if _, d := b.world.touched(); len(d) != len(before) {
		t.Errorf("dialled %v", d[len(before):])
	}
}

// A program that was told an address a moment ago goes to one of the same answer.
func TestToldAnswersAreKept(t *testing.T) {
	b := newBed(t, real(tcpRule("a.example")))
	b.world.ttl = time.Hour
	b.world.name("a.example", "9.9.9.8", "9.9.9.9")
	b.world.server("9.9.9.9:7", listen(t, echo))
	b.query("a.example", dns.TypeA)
	b.world.name("a.example", "9.9.9.7")
	c, err := b.dial("9.9.9.9:7")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if l, d := b.world.touched(); len(l) != 1 || len(d) != 1 {
		t.Errorf("looked up %v, dialled %v", l, d)
	}
}
