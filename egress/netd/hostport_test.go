package netd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/miekg/dns"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/isolate-run/isolate/egress"
)

func hostPorts(ports ...int) egress.Policy {
	return egress.Policy{Mode: egress.ModeRestricted, HostPorts: ports}
}

// A port of this machine that is granted is reached at its name, also through
// the proxies; nothing is looked up for it.
func TestHostPort(t *testing.T) {
	for _, mode := range []egress.Mode{egress.ModeRestricted, egress.ModeFull} {
		for _, d := range []egress.DNS{egress.DNSSynthetic, egress.DNSReal} {
			p := hostPorts(5432)
			p.Mode, p.DNS = mode, d
			b := newBed(t, p)
			b.world.server("127.0.0.1:5432", listen(t, echo))
			for _, dial := range []func(string, int) (net.Conn, error){b.straight, b.connect, b.socks} {
				c, err := dial(string(egress.HostName), 5432)
				if err != nil {
					t.Fatal(err)
				}
				buf := make([]byte, 2)
				if _, err := io.WriteString(c, "hi"); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hi" {
					t.Errorf("got %q, %v", buf, err)
				}
				c.Close()
			}
			if e := b.event(egress.EventOpen, ""); e.Rule != "host:5432" || e.Name != string(egress.HostName) || !e.Dial.Addr().IsLoopback() {
				t.Errorf("got %+v", e)
			}
			if l, _ := b.world.touched(); len(l) > 0 {
				t.Errorf("looked up %v", l)
			}
			b.network.Close()
		}
	}
}

// Nothing else of this machine is reached, and nothing reaches the port but by
// that name.
func TestHostPortOpensNothingElse(t *testing.T) {
	for _, mode := range []egress.Mode{egress.ModeRestricted, egress.ModeFull} {
		p := hostPorts(5432)
		p.Mode = mode
		p.Rules = []egress.Rule{{Name: "loop.example", Protocol: egress.TCP, Ports: []int{5432}}, {Name: "**.isolate.example", Protocol: egress.TCP, Ports: []int{5432}}}
		b := newBed(t, p, func(o *Options) { o.Floor.Host = append(o.Floor.Host, addrPortOf(t, "11.0.0.1", 0).Addr()) })
		b.world.name("loop.example", "127.0.0.1")
		b.world.name("host.isolate.example", "127.0.0.1")
		for _, c := range []struct {
			host string
			port int
			want egress.Reason
		}{
			{string(egress.HostName), 5433, egress.ReasonPortNotAllowed},
			{string(egress.HostName), 443, egress.ReasonPortNotAllowed},
			{"x." + string(egress.HostName), 5432, egress.ReasonNameNotAllowed},
			{"isolate.internal", 5432, egress.ReasonNameNotAllowed},
			{"loop.example", 5432, egress.ReasonAddrDenied},
			{"host.isolate.example", 5432, egress.ReasonAddrDenied},
			{"localhost", 5432, egress.ReasonAddrDenied},
			{"127.0.0.1", 5432, egress.ReasonAddrDenied},
			{"::1", 5432, egress.ReasonAddrDenied},
			{"::ffff:127.0.0.1", 5432, egress.ReasonAddrDenied},
			{"11.0.0.1", 5432, egress.ReasonAddrDenied},
		} {
			n := len(b.log.all())
			if conn, err := b.connect(c.host, c.port); err == nil {
				conn.Close()
				t.Errorf("%s: %s:%d is open", mode, c.host, c.port)
			}
			if got := b.last(n); got.reason != c.want {
				t.Errorf("%s: %s:%d: got %+v, want %s", mode, c.host, c.port, got, c.want)
			}
		}
		remote := full(addrPortOf(t, addressOf(t, b.query(string(egress.HostName), dns.TypeA)), 5432))
		u, err := gonet.DialUDP(b.client, nil, &remote, ipv4.ProtocolNumber)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = u.Write([]byte("x"))
		b.event(egress.EventDeny, egress.ReasonProtoNotAllowed)
		u.Close()
		if _, d := b.world.touched(); len(d) > 0 {
			t.Errorf("dialled %v", d)
		}
		// without the grant there is no such name
		b.set(2, egress.Policy{Mode: mode})
		rcode(t, b.query(string(egress.HostName), dns.TypeA), dns.RcodeNameError)
		b.network.Close()
	}
}

// Whole URLs go through the HTTP proxy, too, and a service that is gone is an
// error, not a refusal by policy.
func TestHostPortOverHTTP(t *testing.T) {
	b := newBed(t, hostPorts(8000, 8001))
	b.world.server("127.0.0.1:8000", listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
	}))
	for port, want := range map[int]int{8000: http.StatusOK, 8001: http.StatusBadGateway} {
		c, err := b.dial("198.18.0.1:3128")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET http://%[1]s:%[2]d/ HTTP/1.1\r\nHost: %[1]s:%[2]d\r\n\r\n", egress.HostName, port)
		head := make([]byte, 12)
		if _, err := io.ReadFull(c, head); err != nil || string(head) != fmt.Sprintf("HTTP/1.1 %d", want) {
			t.Errorf("port %d: got %q, %v", port, head, err)
		}
	}
}
