package net

import (
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
)

// Real clients with real addresses: two names share one, of which one is asked
// for in TLS, and a third may not be shown.
func TestRealAddresses(t *testing.T) {
	r := open(t)
	p := allow(t, "allow:allowed.example,bulk.example,cdn.example,loop.example,tcp://allowed.example:7,tcp://bulk.example:7")
	p.Net.DNS = egress.DNSReal
	arrived(t)
	res := sh(t, r, p, `
for n in allowed bulk cdn loop evil; do getent ahostsv4 $n.example | awk -v n=$n 'NR == 1 { print n, $1 }'; done
for n in allowed bulk cdn; do curl -sS --cacert ca.pem https://$n.example/$n; echo; done
python3 -c '
import socket
for n in "allowed.example", "bulk.example":
    try: socket.create_connection((n, 7), 5); print("connected")
    except OSError as e: print(e.errno)'
curl -sS --max-time 5 -k https://9.9.9.1/ || echo refused`)
	want := "allowed 9.9.9.1\nbulk 9.9.9.1\ncdn 9.9.9.2\nallowed.example /allowed \nbulk.example /bulk \ncdn.example /cdn \n111\n111\nrefused\n"
	if out(res) != want {
		t.Errorf("got %s, %s, want %s", out(res), res.Stderr.Kept, want)
	}
	if !denied(res, egress.ReasonAddrShared) || !denied(res, egress.ReasonAddrDenied) || !denied(res, egress.ReasonSNIMissing) {
		t.Errorf("got %+v", res.Net)
	}
	for _, n := range arrived(t).Names {
		if strings.HasPrefix(n, "evil") {
			t.Errorf("%s was looked up", n)
		}
	}
}

func denied(res isolate.Result, reason egress.Reason) bool {
	for _, d := range res.Net.Denials {
		if d.Reason == reason {
			return true
		}
	}
	return false
}
