package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// cases.md C 41: two runs at once do not interleave wrongly; here eight, with
// four callers each, in two Logs of one directory, as two processes have them.
func TestManyAtOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPlace(t)
	logs := []*Log{p.open(t, Options{}), p.open(t, Options{})}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := begin(t, logs[i%2])
			var callers sync.WaitGroup
			for c := range int64(4) {
				callers.Go(func() {
					for n := range int64(20) {
						call := c*100 + n
						if err := r.Append(CallAccepted{Call: call, Tool: r.ID()}); err != nil {
							t.Error(err)
						}
						if err := r.Append(CallFinished{Call: call, Tool: r.ID(), Decision: "done"}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			if _, err := r.Close(RunEnd{Reason: "exit"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, errors.Join(logs[0].Close(), logs[1].Close()))
	report := p.verify(t, VerifyOptions{}, "")
	for _, s := range report.Runs {
		if s.State != StateEnded || s.Records != 3+4*20*2+1 || len(s.Unfinished) != 0 {
			t.Errorf("a run is %+v", s)
		}
		accepted := map[int64]bool{}
		must(t, Records(p.dir, s.ID, func(r Record) error {
			e, err := r.Decode()
			if err != nil {
				return err
			}
			switch e := e.(type) {
			case CallAccepted:
				if accepted[e.Call] = true; e.Tool != s.ID {
					t.Errorf("run %s has a record of run %s", s.ID, e.Tool)
				}
			case CallFinished:
				if !accepted[e.Call] {
					t.Errorf("call %d ends before it begins", e.Call)
				}
			}
			return nil
		}))
	}
	if report.Records != 1+2*8 {
		t.Errorf("the host log has %d records", report.Records)
	}
}

// A log can be verified and read while it is written to.
func TestVerifyWhileWriting(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				sampleRun(t, l)
			}
		}
	})
	r := begin(t, l)
	for range 20 {
		rep := p.verify(t, VerifyOptions{}, "")
		running := 0
		for _, s := range rep.Runs {
			if s.ID == r.ID() && s.State == StateRunning {
				running++
			}
		}
		if running != 1 {
			t.Errorf("the run that goes on is not reported as such: %+v", rep.Runs)
		}
	}
	close(stop)
	writer.Wait()
	_, err := r.Close(RunEnd{})
	must(t, err)
}

func TestClosedRunAndLog(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("the log did not wait for its run: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	s, err := r.Close(RunEnd{Reason: "exit"})
	must(t, err)
	again, err := r.Close(RunEnd{Reason: "other"})
	if err != nil || again.Checkpoint != s.Checkpoint {
		t.Errorf("closing again gives %v, %v", again, err)
	}
	must(t, <-closed)
	if err := r.Append(LimitHit{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a record behind the end gives %v", err)
	}
	if _, err := l.Run(RunStart{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a run of a closed log gives %v", err)
	}
	if r.key.private != nil {
		t.Error("the key of an ended run is still there")
	}
}

// The host log is opened without being read, unless its hashes do not fit.
func TestStoredHashes(t *testing.T) {
	p := newPlace(t)
	p.sample(t, 5)
	hashes := filepath.Join(p.dir, hostHashes)
	good, err := os.ReadFile(hashes)
	must(t, err)
	for what, bad := range map[string][]byte{
		"missing": nil, "short": good[:len(good)-32], "wrong": append(make([]byte, len(good)-32), good[:32]...), "right": good,
	} {
		if bad == nil {
			must(t, os.Remove(hashes))
		} else {
			must(t, os.WriteFile(hashes, bad, 0o600))
		}
		must(t, p.open(t, Options{}).Close())
		if now, err := os.ReadFile(hashes); err != nil || string(now) != string(good) {
			t.Errorf("%s hashes were not made anew: %v", what, err)
		}
	}
	p.sample(t, 2)
	p.verify(t, VerifyOptions{}, "")
}

func TestUnfinishedWriteIsCutAndRecorded(t *testing.T) {
	p := newPlace(t)
	p.sample(t, 1)
	whole, err := os.ReadFile(p.host())
	must(t, err)
	for _, rest := range []string{"r", "r 00000010 000", "r 000000ff 00000000 {\"data\"", "\x00\x00\x00\x00", whole2(t, p)} {
		must(t, os.WriteFile(p.host(), append([]byte(string(whole)), rest...), 0o600))
		must(t, p.open(t, Options{}).Close())
		p.verify(t, VerifyOptions{}, "")
		found := false
		must(t, Records(p.dir, "", func(r Record) error {
			if e, _ := r.Decode(); e == (LogRecovered{Cut: int64(len(rest))}) {
				found = true
			}
			return nil
		}))
		if !found {
			t.Errorf("that %q was cut off is not recorded", rest)
		}
	}
}

// whole2 is a record that fits and that nobody signed: somebody may have put it
// there after a crash.
func whole2(t *testing.T, p place) string {
	l := pieces(t, p.host())
	b, err := encode(envelope{After: digest([]byte(l[len(l)-1].payload)), Data: LogRecovered{Cut: 7}, Seq: lastRecord(l) + 1, Time: time.Now().UTC().Format(timeForm)})
	must(t, err)
	return string(appendFrame(nil, kindRecord, b))
}

func TestReaderFollows(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	reader, err := OpenReader(p.dir, r.ID())
	must(t, err)
	defer reader.Close()
	var got []string
	drain := func() {
		for {
			rec, err := reader.Next()
			if err == io.EOF {
				return
			}
			must(t, err)
			got = append(got, fmt.Sprint(rec.Seq, rec.Event))
		}
	}
	drain()
	must(t, r.Append(LimitHit{Limit: "wall"}))
	drain()
	_, err = r.Close(RunEnd{})
	must(t, err)
	drain()
	if s := strings.Join(got, " "); s != "0run.start 1program.start 2socket.blocked 3limit.hit 4run.end" {
		t.Errorf("read %s", s)
	}
	for _, bad := range []string{"../host", "x", "20261130-105543.564380-28d4074b"} {
		if _, err := OpenReader(p.dir, bad); err == nil {
			t.Errorf("run %q was opened", bad)
		}
	}
}

func TestWhatProgramsNameCannotBreakARecord(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	nasty := "\xff\x00\u2028\"\\\n</script>\x1b]0;" + strings.Repeat("é", 300000)
	env := make([]string, 1000)
	for i := range env {
		env[i] = nasty
	}
	must(t, r.Append(SocketBlocked{Exe: nasty}, ProgramStart{Program: nasty}, CallRefused{Tool: nasty, Args: r.Payload([]byte(nasty))}))
	must(t, r.Append(BlockedCounts{ByCall: map[string]int64{"connect": 1 << 40}}))
	if err := r.Append(BlockedCounts{Total: 1 << 60}); err == nil {
		t.Error("a number of more than 53 bits was written")
	}
}

// An empty log that the host log does not know may be that of a run which is
// about to begin, or one whose writer gives its name up: it is not judged before
// its writer had time, and what is gone then was none.
func TestVerifyEmptyLog(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"begun": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			t.Cleanup(func() { f.Close() })
			for unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
				time.Sleep(time.Millisecond) // who verifies looks at it
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			l := p.open(t, Options{})
			sampleRun(t, l)
			path := filepath.Join(p.dir, openDir, "20261201-000000.000000-00000000"+logSuffix)
			must(t, os.WriteFile(path, nil, 0o600))
			var later sync.WaitGroup
			later.Go(func() {
				time.Sleep(50 * time.Millisecond)
				then(t, path)
			})
			p.verify(t, VerifyOptions{}, "")
			later.Wait()
		})
	}
}
