package server

import (
	"bytes"
	"io"
	"sync"

	"github.com/isolate-run/isolate/client"
)

// tailSize is how much of a run's output is remembered, in bytes. 256 runs
// (Options.KeepRuns) then hold 32 MiB at most.
const tailSize = 128 << 10

// tail is the end of a run's output. Who writes never waits for who reads.
type tail struct {
	mu     sync.Mutex
	list   []client.Event
	first  uint64 // number of list[0]
	size   int
	lost   int64         // bytes before list[0]
	more   chan struct{} // closed when there is more
	closed bool
}

func newTail() *tail { return &tail{more: make(chan struct{})} }

func (t *tail) stream(typ string) io.Writer { return eventWriter{typ, t.add} }

func (t *tail) add(e client.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(e.Data) - tailSize; over > 0 {
		t.lost += int64(over)
		e.Data = e.Data[over:]
	}
	e.Data = bytes.Clone(e.Data)
	t.list = append(t.list, e)
	for t.size += len(e.Data); t.size > tailSize || len(t.list) > maxPieces; t.first++ {
		t.size -= len(t.list[0].Data)
		t.lost += int64(len(t.list[0].Data))
		t.list[0] = client.Event{}
		t.list = t.list[1:]
	}
	close(t.more)
	t.more = make(chan struct{})
	return nil
}

// maxPieces bounds how many writes are remembered, for programs that write
// byte by byte.
const maxPieces = 4096

// end says that nothing more comes.
func (t *tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	close(t.more)
}

// since gives what came from number at on, the number to go on with, and what
// is closed when there is more; nil means that there will be none.
func (t *tail) since(at uint64) (list []client.Event, next uint64, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at < t.first {
		list = append(list, client.Event{Type: client.EventDropped, Bytes: t.lost})
		at = t.first
	}
	list = append(list, t.list[at-t.first:]...)
	if !t.closed {
		more = t.more
	}
	return list, t.first + uint64(len(t.list)), more
}
