package net

import (
	"strings"
	"testing"

	"github.com/isolate-run/isolate/egress"
)

// Real clients over IPv6: by name, through the proxy, as datagrams to the
// resolver; a literal needs a rule, and a router is not believed.
func TestIPv6(t *testing.T) {
	r := open(t)
	p := allow(t, "allow:allowed.example,api.example,tcp://bulk.example:7")
	p.Net.IPv6 = true
	arrived(t)
	res := sh(t, r, p, `
curl -6 -sS --cacert ca.pem https://allowed.example/six; echo
curl -4 -sS --cacert ca.pem https://allowed.example/four; echo
curl -sS --cacert ca.pem -p -x 'http://[2001:2::c612:1]:3128' https://allowed.example/proxy; echo
curl -6 -sS --cacert ca.pem 'https://allowed.example/bytes?n=3000000' | wc -c
python3 -c '
import socket, struct
print(sorted({a[4][0].split(":")[0] for a in socket.getaddrinfo("api.example", 443, type=socket.SOCK_STREAM)}))
q = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04evil\x07example\x00\x00\x1c\x00\x01"
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(10); s.sendto(q, ("2620:fe::fe", 53)); a, frm = s.recvfrom(512)
print("rcode", a[3] & 15, frm[0])
def t(a, p):
    try: socket.create_connection((a, p), 10); return "connected"
    except OSError as e: return e.errno
for a in "2620:fe::fe", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe": print(t(a, 443))
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.settimeout(10); u.connect(("2620:fe::fe", 443)); u.send(b"x")
try: u.recv(1); print("answered")
except OSError as e: print("datagram", e.errno)
l = socket.socket(socket.AF_INET6); l.bind(("::1", 443)); l.listen(); print(t("::1", 443))
print([open("/proc/sys/net/ipv6/conf/tun0/" + n).read().strip() for n in ("accept_ra", "autoconf", "addr_gen_mode")])
print(*sorted(l.split()[5] + " " + l.split()[0] for l in open("/proc/net/if_inet6")), sep="\n")'`)
	want := `allowed.example /six 
allowed.example /four 
allowed.example /proxy 
3000000
['198.18.0.17', '2001']
rcode 3 2620:fe::fe
111
111
111
111
datagram 111
connected
['0', '0', '1']
lo 00000000000000000000000000000001
tun0 200100020000000000000000c6120002
`
	if out(res) != want {
		t.Errorf("got %s\n%s\nwant %s", out(res), res.Stderr.Kept, want)
	}
	for _, packet := range arrived(t).Packets {
		if packet != "tcp 9.9.9.1:443" && packet != "udp 11.0.0.53:53" {
			t.Errorf("a packet arrived: %s", packet)
		}
	}
	// without it there is no way
	p.Net.IPv6 = false
	res = sh(t, r, p, `curl -6 -sS --max-time 10 --cacert ca.pem https://allowed.example/ || echo no; grep -c tun0 /proc/net/ipv6_route; curl -sS --max-time 10 'http://[2620:fe::fe]/' || echo no`)
	if !strings.HasPrefix(out(res), "no\n") || !strings.HasSuffix(out(res), "no\n") || res.Net.Flows != 0 {
		t.Errorf("without IPv6: %s, %s", out(res), res.Stderr.Kept)
	}
	p.Net = egress.Policy{Mode: egress.ModeFull, IPv6: true}
	if res = sh(t, r, p, `curl -6 -sS --cacert ca.pem https://cdn.example/full`); !strings.HasPrefix(out(res), "cdn.example /full") {
		t.Errorf("in full: %s, %s", out(res), res.Stderr.Kept)
	}
}
