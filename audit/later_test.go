package audit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counted is a log whose syncs of runs are counted, and fail when told.
func counted(t *testing.T, p place) (l *Log, syncs *atomic.Int64, broken *atomic.Bool) {
	t.Helper()
	syncs, broken = &atomic.Int64{}, &atomic.Bool{}
	return p.open(t, Options{syncs: func(f *os.File) error {
		if broken.Load() {
			return unix.EIO
		}
		if !strings.HasSuffix(f.Name(), hostLog) {
			syncs.Add(1)
		}
		return fdatasync(f)
	}}), syncs, broken
}

func events(t *testing.T, p place, id string) (names []Name) {
	t.Helper()
	must(t, Records(p.dir, id, func(r Record) error {
		names = append(names, r.Event)
		return nil
	}))
	return names
}

func noFailure(t *testing.T) func(error) {
	return func(err error) { t.Errorf("it fails: %v", err) }
}

// What nobody waits for costs no write when another comes soon, and stands
// before that.
func TestLaterGoesWithTheNext(t *testing.T) {
	p := newPlace(t)
	l, syncs, _ := counted(t, p)
	r := begin(t, l)
	before := syncs.Load()
	const calls = 50
	began := time.Now()
	for n := range int64(calls) {
		must(t, r.Append(CallAccepted{Call: n, Tool: "t"}))
		must(t, r.AppendLater(noFailure(t), CallFinished{Call: n, Tool: "t", Decision: "done"}))
	}
	made, slow := syncs.Load()-before, int64(time.Since(began)/laterDelay)
	if made < calls || made > calls+slow {
		t.Errorf("%d calls made %d writes; at most %d were late", calls, made, slow)
	}
	_, err := r.Close(RunEnd{})
	must(t, err)
	want := []Name{"run.start", "program.start", "socket.blocked"}
	for range calls {
		want = append(want, "call.accepted", "call.finished")
	}
	if got := events(t, p, r.ID()); !slices.Equal(got, append(want, "run.end")) {
		t.Errorf("the log has %v", got)
	}
	must(t, l.Close())
	p.verify(t, VerifyOptions{}, "")
}

// When nothing else comes it is written nevertheless, and soon.
func TestLaterIsWrittenAlone(t *testing.T) {
	p := newPlace(t)
	l, syncs, _ := counted(t, p)
	r := begin(t, l)
	before := syncs.Load()
	must(t, r.AppendLater(noFailure(t), CallFinished{Call: 1, Tool: "t"}))
	for until := time.Now().Add(60 * time.Second); syncs.Load() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is not written")
		}
	}
	for until := time.Now().Add(60 * time.Second); !slices.Contains(events(t, p, r.ID()), "call.finished"); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is not in the log")
		}
	}
}

// Whoever hands over faster than the disk is waits for it.
func TestLaterIsBounded(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	for n := range int64(10 * maxBatch) {
		must(t, r.AppendLater(noFailure(t), CallFinished{Call: n, Tool: "t"}))
		r.group.mu.Lock()
		waiting := len(r.group.waiting)
		r.group.mu.Unlock()
		if waiting > maxBatch {
			t.Fatalf("%d wait", waiting)
		}
	}
	_, err := r.Close(RunEnd{})
	must(t, err)
	if got := len(events(t, p, r.ID())); got != 3+10*maxBatch+1 {
		t.Errorf("the log has %d records", got)
	}
}

// cases.md B 79: a failure is told even if nobody waits, and is final.
func TestLaterFails(t *testing.T) {
	for name, meet := range map[string]func(*Run) error{
		"alone": func(*Run) error { return unix.EIO },
		"with the next": func(r *Run) error {
			return r.Append(CallAccepted{Call: 2, Tool: "t"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			l, _, broken := counted(t, p)
			r := begin(t, l)
			broken.Store(true)
			told := make(chan error, 2)
			must(t, r.AppendLater(func(err error) { told <- err }, CallFinished{Call: 1, Tool: "t"}))
			if err := meet(r); !errors.Is(err, unix.EIO) {
				t.Errorf("the next record gives %v", err)
			}
			select {
			case err := <-told:
				if !errors.Is(err, unix.EIO) {
					t.Errorf("it says %v", err)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("nothing says that it could not be written")
			}
			broken.Store(false)
			err := r.AppendLater(func(err error) { told <- err }, CallFinished{Call: 3, Tool: "t"})
			if !errors.Is(err, unix.EIO) || len(told) > 0 {
				t.Errorf("a later record gives %v, and is told %d times", err, len(told))
			}
			if _, err := r.Close(RunEnd{}); !errors.Is(err, unix.EIO) {
				t.Errorf("closing gives %v", err)
			}
		})
	}
}

func TestLaterBehindTheEnd(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	_, err := r.Close(RunEnd{})
	must(t, err)
	if err := r.AppendLater(noFailure(t), CallFinished{Call: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("it gives %v", err)
	}
}
