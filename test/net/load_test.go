package net

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
)

// order runs a measuring program in a sandbox.
func order(t testing.TB, r *isolate.Runtime, p isolate.Policy, what string) isolate.Result {
	t.Helper()
	res, err := r.Run(context.Background(), p, isolate.Cmd{Args: []string{"/workspace/net.test"}, Env: map[string]string{"ISOLATE_NETCLIENT": what},
		In: []isolate.Input{{Source: ownProgram(t), Target: "net.test"}}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: %v, %s, %s, %s, %+v", what, err, res.Reason, out(res), res.Stderr.Kept, res.Net)
	}
	return res
}

// Checksums are left out between the sandbox and the network process: what goes
// out and comes back is the same nevertheless.
func TestBytesArriveWhole(t *testing.T) {
	r := open(t)
	p := allow(t, "allow:tcp://bulk.example:7")
	p.Memory = 1 << 30
	res := order(t, r, p, "whole bulk.example:7 64")
	if strings.TrimSpace(out(res)) != "whole" || res.Net.BytesOut != 1+64<<20 || res.Net.BytesIn != 64<<20 {
		t.Errorf("got %q, %+v", out(res), res.Net)
	}
}

// idleMemory is the most that the network process may take before anything
// happens, in KiB.
const idleMemory = 25 << 10

// resident is the memory of a process, in KiB; name is a field of its status.
func resident(t testing.TB, pid int, name string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), name+":")
	var n int
	if _, err := fmt.Sscan(rest, &n); !found || err != nil {
		t.Fatalf("no %s in %s", name, b)
	}
	return n
}

// A thousand connections are open at once, each of use, and the process that
// holds them is small before and after.
func TestThousandFlows(t *testing.T) {
	const flows = 1000
	r := open(t)
	p := allow(t, "allow:tcp://bulk.example:7")
	p.Memory, p.Files = 1<<30, 2*flows
	sb, err := r.Sandbox(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	pid := helperPID(t)
	if n := resident(t, pid, "VmRSS"); n > idleMemory {
		t.Errorf("the idle network process takes %d KiB", n)
	}
	if _, err := sb.CopyIn(context.Background(), []isolate.Input{{Source: ownProgram(t), Target: "net.test"}}); err != nil {
		t.Fatal(err)
	}
	idle := resident(t, pid, "RssAnon")
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"/workspace/net.test"}, Env: map[string]string{"ISOLATE_NETCLIENT": fmt.Sprintf("many bulk.example:7 %d", flows)}})
	if err != nil || strings.TrimSpace(out(res)) != fmt.Sprint(flows) {
		t.Fatalf("%v, %s, %s, %s, %+v", err, res.Reason, out(res), res.Stderr.Kept, res.Net)
	}
	if res.Net.Flows != flows || res.Net.Denied != 0 {
		t.Errorf("got %+v", res.Net)
	}
	t.Logf("%d KiB of its own when idle, at most %d KiB in all with %d flows", idle, resident(t, pid, "VmHWM"), flows)
}

// Every decision is in the log, however fast they come: 5,000 a second for three
// seconds, counted by the program that caused them.
func TestAuditKeepsUp(t *testing.T) {
	const asked = 15000
	log, dir := openLog(t)
	r := openWith(t, isolate.Options{Audit: log, Spares: isolate.NoSpares})
	p := allow(t, "allow:tcp://bulk.example:7")
	p.Memory = 1 << 30
	res := order(t, r, p, fmt.Sprintf("ask bulk.example %d", asked))
	var answered, perSecond int
	if _, err := fmt.Sscan(out(res), &answered, &perSecond); err != nil || answered != asked {
		t.Fatalf("got %q", out(res))
	}
	recorded := 0
	err := audit.Records(dir, res.Audit.Run, func(r audit.Record) error {
		if r.Event == "dns.query" {
			recorded++
		}
		return nil
	})
	if err != nil || recorded != answered {
		t.Errorf("%d of %d decisions are in the log: %v", recorded, answered, err)
	}
	t.Logf("%d decisions, %d a second", recorded, perSecond)
}
