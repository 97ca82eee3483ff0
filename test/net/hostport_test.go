package net

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
)

// A service on the host's loopback, which is granted by its port, and another
// one, which is not.
func TestHostPort(t *testing.T) {
	r := open(t)
	serve := func(text string) int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) })}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { s.Close() })
		return l.Addr().(*net.TCPAddr).Port
	}
	granted, other := serve("granted"), serve("other")
	script := fmt.Sprintf(`
curl -sS http://host.isolate.internal:%[1]d/
curl -sS -x http://198.18.0.1:3128 http://host.isolate.internal:%[1]d/
curl -sS --socks5-hostname 198.18.0.1:1080 http://host.isolate.internal:%[1]d/
for to in host.isolate.internal:%[2]d localhost:%[1]d 127.0.0.1:%[1]d loop.example:%[1]d 11.0.0.1:%[1]d; do curl -sS --max-time 5 http://$to/ || echo no; done
for to in 127.0.0.1 localhost loop.example 11.0.0.1 '[::ffff:127.0.0.1]'; do curl -sS --max-time 5 -p -x http://198.18.0.1:3128 http://$to:%[1]d/ || echo no; done`, granted, other)
	want := strings.Repeat("granted\n", 3) + strings.Repeat("no\n", 10)
	for _, mode := range []egress.Mode{egress.ModeRestricted, egress.ModeFull} {
		p := isolate.Policy{Net: egress.Policy{Mode: mode, HostPorts: []int{granted}, Rules: []egress.Rule{{Name: "loop.example", Protocol: egress.TCP, Ports: []int{granted}}}},
			Allow: []policy.Weakening{policy.HostPorts}}
		res := sh(t, r, p, script)
		if out(res) != want || !slices.Equal(res.Weakenings, p.Allow) {
			t.Errorf("%s: got %q, %s, weakenings %v, %+v", mode, out(res), res.Stderr.Kept, res.Weakenings, res.Net)
		}
	}
	// a sandbox that was made without the grant does not get it later
	sb, err := r.Sandbox(context.Background(), isolate.Policy{Net: egress.Policy{Mode: egress.ModeRestricted}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if err := sb.SetNet(context.Background(), egress.Policy{Mode: egress.ModeRestricted, HostPorts: []int{granted}}); err == nil || !strings.Contains(err.Error(), "made without it") {
		t.Errorf("got %v", err)
	}
}
