package audit

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soak is set where long tests are wanted.
const soak = "ISOLATE_SOAK"

// BenchmarkCall is what a tool call costs beyond itself: a durable record before
// it and one behind it that waits for the next. The callers of one run share
// writes: ns/op is what one call costs the run, p50 what one caller waits.
func BenchmarkCall(b *testing.B) {
	for name, callers := range map[string]int{"1-caller": 1, "4-callers": 4, "16-callers": 16} {
		b.Run(name, func(b *testing.B) {
			p := newPlace(b)
			l := p.open(b, Options{})
			r := begin(b, l)
			args := []byte(`{"city":"Ulm","days":3}`)
			var next atomic.Int64
			times := make([]time.Duration, b.N)
			b.ResetTimer()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						began := time.Now()
						if r.Append(CallAccepted{Call: n, Tool: "weather", Args: r.Payload(args)}) != nil ||
							r.AppendLater(func(error) {}, CallFinished{Call: n, Tool: "weather", Decision: "done"}) != nil {
							b.Error("cannot append")
						}
						times[n-1] = time.Since(began)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			_, err := r.Close(RunEnd{})
			must(b, err)
		})
	}
}

// BenchmarkRun is what a run costs: open, start, end, seal.
func BenchmarkRun(b *testing.B) {
	p := newPlace(b)
	l := p.open(b, Options{})
	for b.Loop() {
		r, err := l.Run(RunStart{Plan: "sha256:00"})
		must(b, err)
		_, err = r.Close(RunEnd{Reason: "exit"})
		must(b, err)
	}
}

// BenchmarkOpen is what a command pays that opens a log of a thousand runs.
func BenchmarkOpen(b *testing.B) {
	p := newPlace(b)
	l := p.open(b, Options{syncs: func(*os.File) error { return nil }})
	for range 1000 {
		r, err := l.Run(RunStart{})
		must(b, err)
		_, err = r.Close(RunEnd{})
		must(b, err)
	}
	must(b, l.Close())
	for b.Loop() {
		l, err := Open(p.dir, Options{Key: p.key})
		must(b, err)
		must(b, l.Close())
	}
}

// BenchmarkVerify is what verification takes, a record. The records are as
// calls come one by one: each in a write of its own.
func BenchmarkVerify(b *testing.B) {
	p := newPlace(b)
	const records = 60_000
	p.long(b, records)
	for b.Loop() {
		p.verify(b, VerifyOptions{}, "")
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/records, "µs/record")
}

// TestVerifyAMillion: a million records verify in less than 10 s. On a machine
// that has other things to do the processors' time counts, as two of them give it.
func TestVerifyAMillion(t *testing.T) {
	if os.Getenv(soak) == "" {
		t.Skip("takes long and much space: set " + soak)
	}
	p := newPlace(t)
	id := p.long(t, 1_000_000)
	began, before := time.Now(), processorTime(t)
	rep := p.verify(t, VerifyOptions{}, "")
	took, used := time.Since(began), processorTime(t)-before
	st, err := os.Stat(p.run(id))
	must(t, err)
	t.Logf("%d records, %d MiB: %s, %s of processor time", rep.Runs[0].Records, st.Size()>>20, took, used)
	if took > 10*time.Second && used/2 > 10*time.Second {
		t.Errorf("it took %s, and %s of processor time", took, used)
	}
}

// long writes a run of so many records.
func (p place) long(t testing.TB, records int64) string {
	l := p.open(t, Options{syncs: func(*os.File) error { return nil }})
	r := begin(t, l)
	args := r.Payload([]byte(`{"city":"Ulm"}`))
	for n := range records / 2 {
		must(t, r.Append(CallAccepted{Call: n, Tool: "weather", Args: args}))
		must(t, r.Append(CallFinished{Call: n, Tool: "weather", Decision: "done"}))
	}
	_, err := r.Close(RunEnd{})
	must(t, err)
	must(t, l.Close())
	return r.ID()
}

func processorTime(t *testing.T) time.Duration {
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
