package isolate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// host is a ToolHost in the same process.
type host struct {
	tools    *isolate.Tools
	watcher  *bridge.Watcher
	service  *isolate.ToolService
	serveErr error
	endErr   error
	ends     int
}

func (h *host) Serve(_ context.Context, b isolate.Bridge) (isolate.Transports, error) {
	if h.serveErr != nil {
		return isolate.OnlyFiles, h.serveErr
	}
	s, err := h.tools.Serve(h.watcher, b)
	h.service = s
	return isolate.OnlyFiles, err
}

func (h *host) End() (isolate.Calls, error) {
	h.ends++
	if h.service == nil {
		return isolate.Calls{}, errors.Join(h.serveErr, h.endErr)
	}
	err := h.service.Close()
	return h.service.Calls(), errors.Join(err, h.endErr)
}

// TestToolHost: a run whose tools another serves has their calls in its result,
// and fails if that other does. The host is told of the end once, in any case.
func TestToolHost(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs, testenv.Python3)
	r, err := isolate.Open(t.Context(), isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := bridge.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var tools isolate.Tools
	if err := isolate.AddTool(&tools, isolate.Tool{Name: "two"}, func(context.Context, struct{}) (int, error) { return 2, nil }); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, h := range map[string]*host{"serves": {}, "cannot serve": {serveErr: broken}, "cannot end": {endErr: broken}} {
		h.tools, h.watcher = &tools, w
		res, err := r.Run(t.Context(), isolate.Policy{}, isolate.Cmd{ToolHost: h, Args: []string{"python3", "-c", "from isolate_tools import two\nprint(two())"}})
		switch {
		case h.ends != 1:
			t.Errorf("%s: told of the end %d times", name, h.ends)
		case name == "serves" && (err != nil || string(res.Stdout.Kept) != "2\n" || res.Calls == nil || res.Calls.Done != 1):
			t.Errorf("%s: %+v, %v, %s", name, res, err, res.Stderr.Kept)
		case name != "serves" && (!errors.Is(err, broken) || res.Reason != isolate.ReasonSandboxError):
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if _, err := r.Run(t.Context(), isolate.Policy{}, isolate.Cmd{ToolHost: &host{}, Tools: &tools, Args: []string{"true"}}); err == nil {
		t.Error("two hosts at once")
	}
}
