package net

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/internal/testenv"
)

// bedDir is the directory of the bed.
func bedDir(t testing.TB) string {
	t.Helper()
	testenv.Require(t, testenv.NetBed)
	return os.Getenv("ISOLATE_NETBED")
}

// arrived is what has arrived in the world since the last call.
func arrived(t testing.TB) seen {
	t.Helper()
	r, err := http.Get("http://11.0.0.2:9999/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var s seen
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB) *isolate.Runtime {
	t.Helper()
	return openWith(t, isolate.Options{Spares: isolate.NoSpares})
}

func openWith(t testing.TB, o isolate.Options) *isolate.Runtime {
	t.Helper()
	bedDir(t)
	o.NetHelper = ownProgram(t)
	r, err := isolate.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ownProgram is the test binary: it is the network process and a client, too.
func ownProgram(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func allow(t testing.TB, short string) isolate.Policy {
	t.Helper()
	n, err := egress.ParseShort(short)
	if err != nil {
		t.Fatal(err)
	}
	return isolate.Policy{Net: n, Wall: 60 * time.Second}
}

// sh runs a shell script in a sandbox.
func sh(t testing.TB, r *isolate.Runtime, p isolate.Policy, script string) isolate.Result {
	t.Helper()
	res, err := r.Run(context.Background(), p, isolate.Cmd{Args: []string{"sh", "-c", script}, In: []isolate.Input{{Source: filepath.Join(bedDir(t), "ca.pem"), Target: "ca.pem"}}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func out(res isolate.Result) string { return string(res.Stdout.Kept) }

func TestAllowedName(t *testing.T) {
	r := open(t)
	arrived(t)
	res := sh(t, r, allow(t, "allow:allowed.example"), "curl -sS --cacert ca.pem https://allowed.example/hello && cat /etc/resolv.conf && ls /dev /dev/net 2>&1; cat /proc/net/dev")
	if !strings.HasPrefix(out(res), "allowed.example /hello") {
		t.Fatalf("got %q, %q, %+v", out(res), res.Stderr.Kept, res.Net)
	}
	if strings.Contains(out(res), "\ntun\n") {
		t.Errorf("the program sees the TUN node: %s", out(res))
	}
	if res.Net == nil || res.Net.Flows != 1 || res.Net.Denied != 0 || !slices.Equal(res.Net.Names, []string{"allowed.example"}) {
		t.Errorf("got %+v", res.Net)
	}
	for _, p := range arrived(t).Packets {
		if p != "tcp 9.9.9.1:443" && p != "udp 11.0.0.53:53" {
			t.Errorf("a packet arrived: %s", p)
		}
	}
}
