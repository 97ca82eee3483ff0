package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
)

func TestTroubles(t *testing.T) {
	if got := troubles(nil); got != nil {
		t.Errorf("without tools: %q", got)
	}
	done := func(tool string, code bridge.Code, detail string) bridge.Record {
		return bridge.Record{Tool: tool, State: bridge.Done, Code: code, Detail: detail}
	}
	got := troubles(&isolate.Calls{Calls: []bridge.Record{
		done("fine", "", ""),
		done("fail", "tool_failed", "exit code 1"),
		done("fail", "tool_failed", "exit code 2; on its standard error: Traceback\n\tisolate: \x1b[2Jdone\u202e\nValueError\n"),
		{Tool: "\x1b[2J", State: bridge.Refused, Code: bridge.CodeUnknownTool},
		{Tool: "cut", State: bridge.Unknown, Code: bridge.CodeClosed},
	}})
	want := []string{
		"isolate: 2 calls of fail failed: tool_failed",
		"    exit code 2; on its standard error: Traceback",
		`        isolate: \u001b[2Jdone\u202e`,
		"    ValueError",
		"isolate: a call of no tool was refused: unknown_tool",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Neither many nor long ones fill the screen, and the end of one is there.
	var many []bridge.Record
	for i := range 1000 {
		many = append(many, done(fmt.Sprint("t", i), "x", strings.Repeat("ä\x1b", 3000)+"the cause"))
	}
	text := strings.Join(troubles(&isolate.Calls{Calls: many}), "\n")
	if len(text) > 30_000 || strings.Count(text, "the cause") != maxTroubles || !strings.HasSuffix(text, `under "calls"`) || strings.Contains(text, "\x1b") {
		t.Errorf("%d bytes, %.200q", len(text), text)
	}
}
