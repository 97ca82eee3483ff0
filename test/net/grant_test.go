package net

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/egress"
)

// curl fetches a page of allowed.example in a kept sandbox.
func curl(t *testing.T, sb *isolate.Sandbox, host string) string {
	t.Helper()
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"curl", "-sS", "http://" + host + "/x"}})
	if err != nil {
		t.Fatal(err)
	}
	return out(res)
}

// A grant opens, ends by itself, cuts what is open then, and leaves the clocks
// of the other rules alone.
func TestGrant(t *testing.T) {
	r := open(t)
	p := allow(t, "allow:http://allowed.example")
	p.Net.Rules[0].For = 12 * time.Second
	sb, err := r.Sandbox(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	began := time.Now()
	rule, _ := egress.ParseShortRule("http://cdn.example")
	until, err := sb.Grant(context.Background(), isolate.NetGrant{Rules: []isolate.NetRule{rule}, For: 6 * time.Second, Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if got := curl(t, sb, "cdn.example") + curl(t, sb, "allowed.example"); got != "cdn.example /x allowed.example /x " {
		t.Errorf("with a grant: %q", got)
	}
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"sh", "-c", "curl -sS -o /dev/null http://cdn.example/slow; echo $?"}})
	if err != nil || strings.TrimSpace(out(res)) == "0" {
		t.Errorf("a download across the end: %v %q", err, out(res))
	}
	if late := time.Since(until); late < 0 || late > 20*time.Second {
		t.Errorf("it ended %s after the end", late)
	}
	// another grant does not begin the first rule's time anew
	if _, err := sb.Grant(context.Background(), isolate.NetGrant{Rules: []isolate.NetRule{rule}, For: time.Minute, Reason: "again"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(began.Add(12500 * time.Millisecond)))
	if got := curl(t, sb, "cdn.example") + curl(t, sb, "allowed.example"); got != "cdn.example /x " {
		t.Errorf("after the first rule's time: %q", got)
	}
	if _, err := sb.Grant(context.Background(), isolate.NetGrant{Rules: []isolate.NetRule{{Name: "cdn.example", TLS: egress.Intercept}}, For: time.Minute, Reason: "x"}); err == nil {
		t.Error("a grant of what the sandbox was not made for is taken")
	}
	if got := curl(t, sb, "cdn.example"); got == "" {
		t.Error("a refused grant changed something")
	}
	none, err := r.Sandbox(context.Background(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := none.Grant(context.Background(), isolate.NetGrant{Rules: []isolate.NetRule{rule}, For: time.Minute, Reason: "x"}); err == nil || !strings.Contains(err.Error(), "without a network") {
		t.Errorf("without a network: %v", err)
	}
}

// The whole way: a server, a sandbox that it keeps, the command.
func TestGrantCommand(t *testing.T) {
	dir, err := os.MkdirTemp("", "isolate-g-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket, log := filepath.Join(dir, "s"), filepath.Join(dir, "log")
	serve := isolateCommand(t, "serve", "--socket", socket, "--audit", log)
	var errs strings.Builder
	serve.Stderr = &errs
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("%v: %s", err, &errs)
		}
	}()
	c := client.New(socket)
	defer c.Close()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := c.Version(t.Context()); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err, errs.String())
		}
	}
	sb, err := c.NewSandbox(t.Context(), client.SandboxRequest{Policy: "[net]\nmode = \"restricted\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() (text string) {
		err := c.RunIn(t.Context(), sb.ID, client.RunRequest{Args: []string{"curl", "-sS", "http://allowed.example/x"}}, func(e client.Event) error {
			if e.Type == client.EventStdout {
				text += string(e.Data)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := fetch(); got != "" {
		t.Errorf("before the grant: %q", got)
	}
	grant := func(args ...string) (string, error) {
		b, err := exec.Command(serve.Path, append([]string{"net", "grant", "--socket", socket}, args...)...).CombinedOutput()
		return string(b), err
	}
	for _, args := range [][]string{{sb.ID}, {sb.ID, "allowed.example"}, {sb.ID, "*", "--reason", "x"}, {"s99", "allowed.example", "--reason", "x"}, {sb.ID, "allowed.example", "--reason", "x", "--for", "25h"}} {
		if text, err := grant(args...); err == nil || !strings.Contains(text, "hint:") {
			t.Errorf("%v: %v %s", args, err, text)
		}
	}
	text, err := grant(sb.ID, "allowed.example:80", "--for", "8s", "--reason", "fetch the page")
	if err != nil || !strings.Contains(text, sb.ID+" may reach http:allowed.example:80 until ") {
		t.Fatalf("%v %s", err, text)
	}
	if got := fetch(); got != "allowed.example /x " {
		t.Errorf("after the grant: %q", got)
	}
	time.Sleep(8100 * time.Millisecond)
	if got := fetch(); got != "" {
		t.Errorf("after its end: %q", got)
	}
	if err := c.DeleteSandbox(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	runs, err := audit.Runs(log)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v: the log has %v", err, runs)
	}
	b, err := exec.Command(serve.Path, "audit", "show", log, runs[0]).CombinedOutput()
	if shown := string(b); err != nil || !strings.Contains(shown, "net.grant") || !strings.Contains(shown, "fetch the page") || strings.Index(shown, "net.grant") > strings.Index(shown, "policy.change") {
		t.Errorf("%v: the log has %s", err, shown)
	}
}
