package loan

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/dirfd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a connection.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return ends[0], ends[1]
}

// book is a Journal that remembers, and refuses what is called "no".
type book struct {
	mu   sync.Mutex
	seen []bridge.Record
}

var errFull = errors.New("the disk is full")

func (b *book) Accepted(r bridge.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, r)
	if r.Tool == "no" {
		return errFull
	}
	return nil
}

func (b *book) Finished(r bridge.Record) error { return b.Accepted(r) }

// site is a bridge of two directories.
func site(t *testing.T) bridge.Site {
	t.Helper()
	var s bridge.Site
	for _, to := range []**os.File{&s.Root, &s.Workspace} {
		f, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		*to = f
	}
	return s
}

// flag is something that can be held.
type flag struct {
	mu   sync.Mutex
	held int
}

func (f *flag) hold() func() {
	f.add(1)
	return func() { f.add(-1) }
}

func (f *flag) add(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += n
	return f.held
}

func borrow(t *testing.T, conn *net.UnixConn) *Borrower {
	t.Helper()
	b, err := Borrow(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestLoan(t *testing.T) {
	ours, theirs := pair(t)
	var clock, screen flag
	journal := &book{}
	s := site(t)
	s.Owner, s.Hold, s.Journal = dirfd.Owner{UID: 7, GID: 8}, clock.hold, journal
	l := &Lender{Conn: ours, Quiet: screen.hold}
	ready := make(chan Ready, 1)
	go func() {
		r, err := l.Lend(t.Context(), s)
		if err != nil {
			t.Error(err)
		}
		ready <- r
	}()
	b := borrow(t, theirs)
	if b.Owner != s.Owner {
		t.Errorf("owner %v", b.Owner)
	}
	if err := os.WriteFile(filepath.Join(s.Root.Name(), "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := b.Root.Readdirnames(-1); err != nil || !reflect.DeepEqual(names, []string{"f"}) {
		t.Errorf("the handle shows %q, %v", names, err)
	}
	if err := b.Serving(Ready{Socket: true, About: []byte(`{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	if r := <-ready; !r.Socket || string(r.About) != `{"a":1}` {
		t.Errorf("%+v", r)
	}

	rec := bridge.Record{Seq: 3, ID: "x", Tool: "yes", Via: bridge.ViaFile, State: bridge.Running, Args: []byte(`{"n":1}`),
		Approval: &bridge.Approved{Verdict: bridge.Allow, By: "terminal"}, Wall: time.Second}
	if err := b.Journal().Accepted(rec); err != nil || !reflect.DeepEqual(journal.seen, []bridge.Record{rec}) {
		t.Errorf("%v, %+v", err, journal.seen)
	}
	if err := b.Journal().Finished(bridge.Record{Tool: "no", Via: bridge.ViaFile, State: bridge.Done}); err == nil || err.Error() != errFull.Error() {
		t.Errorf("what cannot be recorded: %v", err)
	}
	for what, f := range map[Hold]*flag{Clock: &clock, Terminal: &screen} {
		release, err := b.Hold(what)
		if err != nil || f.add(0) != 1 {
			t.Errorf("%s: %v, held %d times", what, err, f.add(0))
		}
		release()
		release()
		if f.add(0) != 0 {
			t.Errorf("%s: held %d times after its release", what, f.add(0))
		}
	}
	if _, err := b.Hold("breath"); err == nil {
		t.Error("anything can be held")
	}

	if _, err := b.Hold(Clock); err != nil { // and never released
		t.Error(err)
	}
	want := bridge.Summary{Accepted: 2, Done: 1, Calls: []bridge.Record{{Seq: 1, Tool: "yes", Via: bridge.ViaFile, State: bridge.Done}}}
	go func() {
		b.Wait()
		// what the end cut off is recorded after it
		if err := b.Journal().Finished(bridge.Record{Tool: "late", Via: bridge.ViaSocket, State: bridge.Discarded}); err != nil {
			t.Error(err)
		}
		if err := b.Return(want); err != nil {
			t.Error(err)
		}
	}()
	got, err := l.End()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if clock.add(0) != 0 {
		t.Error("the clock is held after the end")
	}
	if last := journal.seen[len(journal.seen)-1]; last.Tool != "late" {
		t.Errorf("last recorded: %+v", last)
	}
	if err := b.Root.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the handle was open after its return: %v", err)
	}
}

// TestBorrowerFails: that tools cannot be served is an error where the run is.
func TestBorrowerFails(t *testing.T) {
	ours, theirs := pair(t)
	l := &Lender{Conn: ours}
	go func() {
		b, err := Borrow(theirs)
		if err != nil {
			t.Error(err)
			return
		}
		if b.Journal() != nil {
			t.Error("calls are recorded, and nobody wanted that")
		}
		_ = b.Failed(errors.New("no more watches"))
		b.Close()
	}()
	if _, err := l.Lend(t.Context(), site(t)); err == nil || !strings.Contains(err.Error(), "no more watches") {
		t.Errorf("%v", err)
	}
	if _, err := l.End(); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}

// TestLyingBorrower: words that no broker writes get neither into the log nor
// into a result, where numbers are named after them.
func TestLyingBorrower(t *testing.T) {
	honest := bridge.Record{Via: bridge.ViaFile, State: bridge.Done, Class: bridge.Failed}
	many := make([]bridge.Record, bridge.MaxRecords+1)
	for i := range many {
		many[i] = honest
	}
	lies := map[string]bridge.Summary{"too many": {Calls: many}}
	for name, tell := range map[string]func(*bridge.Record){
		"transport":    func(r *bridge.Record) { r.Via = "file2" },
		"no transport": func(r *bridge.Record) { r.Via = "" },
		"state":        func(r *bridge.Record) { r.State = "Done" },
		"class":        func(r *bridge.Record) { r.Class = bridge.Class(strings.Repeat("x", 1<<10)) },
	} {
		r := honest
		tell(&r)
		lies[name] = bridge.Summary{Calls: []bridge.Record{honest, r}}
	}
	for name, said := range lies {
		ours, theirs := pair(t)
		journal := &book{}
		s := site(t)
		s.Journal = journal
		l := &Lender{Conn: ours}
		go func() {
			b, err := Borrow(theirs)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			_ = b.Serving(Ready{})
			if last := said.Calls[1]; last.Check() != nil {
				for _, write := range []func(bridge.Record) error{b.Journal().Accepted, b.Journal().Finished} {
					if err := write(last); err == nil || len(err.Error()) > 300 {
						t.Errorf("%s: recorded, or told at length: %v", name, err)
					}
				}
			}
			b.Wait()
			_ = b.Return(said)
		}()
		if _, err := l.Lend(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if sum, err := l.End(); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%s: %d calls, %v", name, len(sum.Calls), err)
		}
		if len(journal.seen) != 0 {
			t.Errorf("%s: recorded %+v", name, journal.seen)
		}
	}
}

// TestBadBorrowers: whatever the other side says, the lender goes on or gives up.
func TestBadBorrowers(t *testing.T) {
	for name, said := range map[string]string{
		"nothing":           "",
		"no JSON":           "hello\n",
		"half a line":       `{"ready":{}`,
		"another kind":      "[1]\n",
		"an endless line":   strings.Repeat("x", maxLine+1),
		"a release of none": `{"release":9}` + "\nx\n",
		"an empty word":     "{}\nx\n",
		"holds without end": strings.Repeat(`{"id":1,"hold":"clock"}`+"\n", 3*maxHeld) + "x\n",
	} {
		ours, theirs := pair(t)
		var clock flag
		s := site(t)
		s.Hold = clock.hold
		go func() {
			_, _ = theirs.Write([]byte(said))
			theirs.Close()
		}()
		l := &Lender{Conn: ours}
		if _, err := l.Lend(t.Context(), s); err == nil {
			t.Errorf("%s: served", name)
		}
		if sum, err := l.End(); err == nil || sum.Accepted != 0 {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
		if clock.add(0) != 0 {
			t.Errorf("%s: the clock is held %d times", name, clock.add(0))
		}
	}
}

// TestEndBeforeBeginning: who says what became of the calls serves no more.
func TestEndBeforeBeginning(t *testing.T) {
	ours, theirs := pair(t)
	go func() { _, _ = theirs.Write([]byte(`{"ended":{}}` + "\n")) }()
	l := &Lender{Conn: ours}
	if _, err := l.Lend(t.Context(), site(t)); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}

// TestLendIsGivenUp: the end of the run does not wait for a borrower.
func TestLendIsGivenUp(t *testing.T) {
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := &Lender{Conn: ours}
	go func() {
		_, _ = bufio.NewReader(theirs).ReadString('\n')
		cancel()
	}()
	if _, err := l.Lend(ctx, site(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	began := time.Now()
	if _, err := l.End(); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestBadOffers(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	n := int(null.Fd())
	for name, c := range map[string]struct {
		text string
		fds  []int
	}{
		"no handles":       {"{}\n", nil},
		"one handle":       {"{}\n", []int{n}},
		"three handles":    {"{}\n", []int{n, n, n}},
		"no JSON":          {"x\n", []int{n, n}},
		"half a line":      {"{}", []int{n, n}},
		"more than a line": {"{}\n{}\n", []int{n, n}},
	} {
		ours, theirs := pair(t)
		if _, _, err := ours.WriteMsgUnix([]byte(c.text), syscall.UnixRights(c.fds...), nil); err != nil {
			t.Fatal(err)
		}
		if b, err := Borrow(theirs); err == nil {
			b.Close()
			t.Errorf("%s: borrowed", name)
		}
	}
	ours, theirs := pair(t)
	ours.Close()
	if _, err := Borrow(theirs); !errors.Is(err, ErrGone) {
		t.Errorf("nobody there: %v", err)
	}
}
