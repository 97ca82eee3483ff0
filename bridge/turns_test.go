package bridge

import (
	"context"
	"runtime"
	"testing"
)

// A tool runs in the goroutine that leads the watcher. Whatever becomes of that
// goroutine, later requests are served, those of other servers too.
func TestLeaderIsLost(t *testing.T) {
	stuck := make(chan struct{})
	begun := make(chan struct{}, 1)
	tool := func(name string, f func(context.Context, Call) (Reply, error)) Tool { return Tool{Name: name, Run: f} }
	tools := []Tool{
		tool("fine", func(context.Context, Call) (Reply, error) { return Reply{}, nil }),
		tool("leaves", func(context.Context, Call) (Reply, error) { runtime.Goexit(); return Reply{}, nil }),
		tool("panics", func(context.Context, Call) (Reply, error) { panic("so") }),
		tool("sticks", func(context.Context, Call) (Reply, error) {
			begun <- struct{}{}
			<-stuck
			return Reply{}, nil
		}),
	}
	r := newRig(t, Options{MaxCalls: NoLimit}, tools...)
	set, err := NewSet(tools...)
	must(t, err)
	b := NewBroker(set, Options{MaxCalls: NoLimit})
	dir := tempDir(t)
	s, err := ServeFiles(r.server.w, layout(t, dir), b)
	must(t, err)
	other := &rig{t: t, dir: dir + "/rpc", ws: dir + "/ws", broker: b, server: s}
	t.Cleanup(func() {
		b.Close()
		must(t, s.Close())
	})
	t.Cleanup(func() { close(stuck) })
	for range 20 {
		if a := r.call("leaves", `{}`); a.Code != CodePanic {
			t.Fatalf("a tool that leaves: %+v", a)
		}
		if a := r.call("panics", `{}`); a.Code != CodePanic {
			t.Fatalf("a tool that panics: %+v", a)
		}
		if a := other.call("fine", `{}`); a.Status != "ok" {
			t.Fatalf("another server after them: %+v", a)
		}
	}
	id := r.id()
	r.write(id, `{"tool":"sticks","args":{}}`)
	<-begun
	for i := range 5 {
		if a := other.call("fine", `{}`); a.Status != "ok" {
			t.Fatalf("another server beside one that is stuck: %+v", a)
		}
		if a := r.call("fine", `{}`); a.Status != "ok" {
			t.Fatalf("call %d beside one that is stuck: %+v", i, a)
		}
	}
}
