package net

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
)

// openLog makes a log in a directory of its own.
func openLog(t testing.TB) (*audit.Log, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	key, err := audit.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(dir, audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log, dir
}

// What happens on the network is in the log of the run, in order, and the log
// holds.
func TestAuditOfTheNetwork(t *testing.T) {
	log, dir := openLog(t)
	r := openWith(t, isolate.Options{Audit: log})
	res, err := r.Run(context.Background(), allow(t, "allow:http://allowed.example"), isolate.Cmd{Args: []string{"sh", "-c", "curl -sS http://allowed.example/x; curl -sS http://evil.example/; curl -sS http://9.9.9.2/; true"}})
	if err != nil || !strings.HasPrefix(out(res), "allowed.example /x") {
		t.Fatalf("%v %s %s", err, out(res), res.Stderr.Kept)
	}
	var names []string
	var open audit.FlowOpen
	var end audit.FlowClose
	err = audit.Records(dir, res.Audit.Run, func(r audit.Record) error {
		e, err := r.Decode()
		names = append(names, string(r.Event))
		switch e := e.(type) {
		case audit.FlowOpen:
			open = e
		case *audit.FlowOpen:
			open = *e
		case audit.FlowClose:
			end = e
		case *audit.FlowClose:
			end = *e
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, want := range []string{"run.start", "net.start", "dns.query", "flow.open", "http.request", "run.end"} {
		next := slices.Index(names, want)
		if next <= at {
			t.Errorf("%s is not behind what comes before it in %v", want, names)
		}
		at = next
	}
	if !slices.Contains(names, "flow.deny") || !slices.Contains(names, "flow.close") {
		t.Errorf("got %v", names)
	}
	if open.Name != "allowed.example" || open.Dial != "9.9.9.1:80" || open.Flow != end.Flow || end.BytesIn == 0 {
		t.Errorf("got %+v, %+v", open, end)
	}
}
