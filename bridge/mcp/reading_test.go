package mcp

import (
	"bufio"
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
