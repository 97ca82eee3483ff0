package audit

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var update = flag.Bool("update", false, "write docs/audit-events.md anew")

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(victim(dir))
	}
	os.Exit(m.Run())
}

// place is a directory of logs and the key that signs it.
type place struct {
	dir string
	key *Key
}

func newPlace(t testing.TB) place {
	t.Helper()
	k, err := LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return place{filepath.Join(t.TempDir(), "logs"), k}
}

func (p place) open(t testing.TB, o Options) *Log {
	t.Helper()
	o.Key = p.key
	l, err := Open(p.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// sample writes runs with some calls each and returns their ids.
func (p place) sample(t testing.TB, runs int) []string {
	t.Helper()
	l := p.open(t, Options{})
	var ids []string
	for range runs {
		ids = append(ids, sampleRun(t, l).Run)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

func sampleRun(t testing.TB, l *Log) Seal {
	t.Helper()
	r := begin(t, l)
	for i := range int64(3) {
		must(t, r.Append(CallAccepted{Call: i + 1, Tool: "weather", Args: r.Payload([]byte(`{"city":"Ulm"}`))}))
		must(t, r.Append(CallFinished{Call: i + 1, Tool: "weather", Decision: "done", Wall: 12, Response: 4}))
	}
	s, err := r.Close(RunEnd{Reason: "exit"})
	must(t, err)
	return s
}

func begin(t testing.TB, l *Log) *Run {
	t.Helper()
	r, err := l.Run(RunStart{Plan: "sha256:00", Kernel: "6.1", Net: "none"})
	must(t, err)
	t.Cleanup(func() { _, _ = r.Close(RunEnd{}) }) // Log.Close waits for it
	must(t, r.Append(ProgramStart{Program: "python3"}, SocketBlocked{Call: "connect", Address: "192.0.2.1", Port: 443, Errno: "ENETUNREACH"}))
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// verify wants a report in which exactly the first reason is the given one, or
// no problem for "".
func (p place) verify(t testing.TB, o VerifyOptions, want Reason) Report {
	t.Helper()
	if o.Keys == nil {
		o.Keys = []string{p.key.VerifierKey()}
	}
	r, err := Verify(p.dir, o)
	must(t, err)
	got := Reason("")
	if len(r.Problems) > 0 {
		got = r.Problems[0].Reason
	}
	if got != want {
		t.Errorf("verified as %q, want %q: %d problems, the first %v", got, want, len(r.Problems), r.Problems[:min(3, len(r.Problems))])
	}
	return r
}

func (p place) run(id string) string {
	return filepath.Join(p.dir, runsDir, dayOf(id), id+logSuffix)
}

func (p place) host() string { return filepath.Join(p.dir, hostLog) }

// piece is a frame that is being forged.
type piece struct {
	kind    kind
	payload string
}

func pieces(t testing.TB, file string) []piece {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	var list []piece
	for r := newFrameReader(f, 0); ; {
		fr, err := r.next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		list = append(list, piece{fr.kind, string(fr.payload)})
	}
}

// forge writes frames with right checksums: whoever changes a log can count.
func forge(t testing.TB, file string, list []piece) {
	t.Helper()
	var b []byte
	for _, p := range list {
		b = appendFrame(b, p.kind, []byte(p.payload))
	}
	must(t, os.WriteFile(file, b, 0o600))
}

// record gives the place of record n among the frames.
func recordAt(t testing.TB, list []piece, n int64) int {
	t.Helper()
	for i, p := range list {
		if p.kind == kindRecord && strings.Contains(p.payload, fmt.Sprintf(`"seq":%d,`, n)) {
			return i
		}
	}
	t.Fatalf("there is no record %d", n)
	return 0
}

func lastRecord(list []piece) int64 {
	n := int64(-1)
	for _, p := range list {
		if p.kind == kindRecord {
			n++
		}
	}
	return n
}

// resign makes a whole log anew over changed records: sequence, links between
// records and checkpoints, roots, signatures. It is what the holder of a key
// can do.
func resign(t testing.TB, list []piece, origin string, key note.Signer) []piece {
	t.Helper()
	var out []piece
	var tr tree
	after := ""
	for _, p := range list {
		if p.kind == kindCheckpoint {
			c := Checkpoint{origin, tr.size, tr.root()}
			msg, err := note.Sign(&note.Note{Text: c.text()}, key)
			must(t, err)
			out = append(out, piece{kindCheckpoint, string(msg)})
			after = digest(msg)
			continue
		}
		r, err := ParseRecord([]byte(p.payload))
		must(t, err)
		e, err := r.Decode()
		must(t, err)
		b, err := encode(envelope{After: after, Data: e, Seq: tr.size, Run: r.Run, Policy: r.Policy, Time: r.Time.Format(timeForm), Mono: r.Mono.Microseconds()})
		must(t, err)
		out = append(out, piece{kindRecord, string(b)})
		tr.add(tlog.RecordHash(b))
		after = ""
	}
	return out
}

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}
