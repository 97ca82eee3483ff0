package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

// Two readers of one request take it for the same call: no name counts twice,
// and none in capitals.
func TestServeOneReading(t *testing.T) {
	file, b := serve(t, bridge.Options{})
	conn := dial(t, file)
	lines := bufio.NewReader(conn)
	for _, params := range []string{
		`{"name":"text","name":"fails"}`, `{"name":"text","arguments":{},"arguments":{"n":1}}`, `{"NAME":"text"}`, `{"Name":"text","arguments":{}}`, `["text"]`, `"text"`, `{"name":7}`, `null`,
	} {
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`+"\n", params)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "-32602") {
			t.Errorf("%s: got %q, %v", params, line, err)
		}
	}
	if n := len(b.Summary().Calls); n != 0 {
		t.Errorf("%d calls", n)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","NAME":"fails","_meta":{"x":1}}}`)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "two") {
		t.Errorf("got %q, %v", line, err)
	}
}

// A result that two readers take for different values is none, and the server
// is still there.
func TestResultHasOneReading(t *testing.T) {
	s := open(t, command(t, "twice"))
	defer s.Close()
	for range 2 {
		var told *bridge.Error
		if got, err := call(t, s, "blob", "{}"); !errors.As(err, &told) || told.Code != bridge.CodeBadResult {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"a":1}}`:                       `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"a":1},"result":{}}`:           `"id":7,"error"`,
		`{"jsonrpc":"2.0","id":"x","result":{"a":{"b":1,"b":2}}}`:         `"id":"x","error"`,
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":1,"a":2}}`: `"method":"notifications/ambiguous"`,
		`{"jsonrpc":"2.0","id":{},"result":{"a":1,"a":2}}`:                `"method":"notifications/ambiguous"`,
	} {
		if got := string(keepNumbers([]byte(message))); !strings.Contains(got, want) {
			t.Errorf("%s became %s", message, got)
		}
	}
}

// A server that asks and does not read filled the host's memory with questions,
// and the end of the run waited 30 s for the answers.
func TestServerAsksWithoutEnd(t *testing.T) {
	s, err := Open(t.Context(), command(t, "asking"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	for !now.isGone() { // the test's own time limit bounds it
		time.Sleep(10 * time.Millisecond)
	}
	if n := now.line.asked.Load(); n > maxAsked+1 {
		t.Errorf("%d questions wait", n)
	}
	begun := time.Now()
	_ = s.Close()
	if d := time.Since(begun); d > writeTime/2 {
		t.Errorf("Close took %v", d)
	}
}

// whenAccepted calls f when so many calls are at work, or have been.
func whenAccepted(b *bridge.Broker, calls int64, f func()) {
	for b.Summary().Accepted < calls {
		time.Sleep(time.Millisecond)
	}
	f()
}
