package isolate_test

import (
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
)

// manyAttempts makes 1000 attempts from ten threads: IPv4, IPv6, mapped
// addresses, UDP by sendto and by sendmsg.
const manyAttempts = `
import socket, threading
def stream(family, to):
    s = socket.socket(family, socket.SOCK_STREAM)
    try: s.connect(to)
    except OSError: pass
    s.close()
def work():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    v = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for i in range(20):
        stream(socket.AF_INET, ("192.0.2.1", 1 + i))
        stream(socket.AF_INET6, ("2001:db8::1", 1 + i))
        stream(socket.AF_INET6, ("::ffff:192.0.2.1", 1 + i))
        try: u.sendto(b"x", ("192.0.2.2", 53))
        except OSError: pass
        s, to = ((u, ("192.0.2.3", 53)), (v, ("2001:db8::3", 53)))[i % 2]
        try: s.sendmsg([b"x"], [], 0, to)
        except OSError: pass
threads = [threading.Thread(target=work) for _ in range(10)]
for t in threads: t.start()
for t in threads: t.join()
`

// TestAuditIsComplete: every attempt is a record or in an exact count.
func TestAuditIsComplete(t *testing.T) {
	a := openAudited(t)
	res, err := a.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"python3", "-c", manyAttempts}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v: %s", res, err, res.Stderr.Kept)
	}
	if res.Blocked.Total != 800 || res.Blocked.ByClass["reserved"] != 800 {
		t.Errorf("%d refused, by class %v; want 800", res.Blocked.Total, res.Blocked.ByClass)
	}
	s := a.Security()
	if s.Counted["refused_calls"] != 800 || s.Recorded["refused_calls"] != 800 || s.Attempts["unrouted"] != 200 {
		t.Errorf("counted %v, recorded %v, attempts %v", s.Counted, s.Recorded, s.Attempts)
	}
	var counts audit.BlockedCounts
	_, list := a.events(t, res.Audit.Run)
	for _, e := range list {
		if c, ok := e.(audit.BlockedCounts); ok {
			counts = c
		}
	}
	if counts.Total != 800 || counts.Unrouted != 200 || counts.Folded != 800-2*32 {
		t.Errorf("the log has %+v", counts)
	}
}
