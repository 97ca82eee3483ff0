package audit

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"
)

func TestUntouchedLogVerifies(t *testing.T) {
	p := newPlace(t)
	ids := p.sample(t, 3)
	r := p.verify(t, VerifyOptions{}, "")
	if len(r.Runs) != 3 || r.Records != 7 || !r.Pinned {
		t.Errorf("the report is %+v", r)
	}
	for i, s := range r.Runs {
		if s.ID != ids[i] || s.State != StateEnded || s.Records != 10 || len(s.Unfinished) != 0 {
			t.Errorf("a run is reported as %+v", s)
		}
	}
	p.verify(t, VerifyOptions{Run: ids[1]}, "")
}

// cases.md B 78. Each tampering is one that keeps the checksums right.
func TestTamperingOfARun(t *testing.T) {
	edit := func(list []piece, n int, from, to string) []piece {
		if !strings.Contains(list[n].payload, from) {
			panic("nothing to edit: " + list[n].payload)
		}
		list[n].payload = strings.Replace(list[n].payload, from, to, 1)
		return list
	}
	cases := []struct {
		name string
		do   func(t *testing.T, l []piece) []piece
		want Reason
	}{
		{"a record is changed", func(t *testing.T, l []piece) []piece {
			return edit(l, recordAt(t, l, 3), "weather", "feather")
		}, RootMismatch},
		{"a record is dropped", func(t *testing.T, l []piece) []piece {
			i := recordAt(t, l, 4)
			return slices.Delete(l, i, i+1)
		}, Gap},
		{"a record and its checkpoint are dropped", func(t *testing.T, l []piece) []piece {
			i := recordAt(t, l, 4)
			return slices.Delete(l, i, i+2)
		}, Gap},
		{"two records are swapped", func(t *testing.T, l []piece) []piece {
			i, j := recordAt(t, l, 4), recordAt(t, l, 5)
			l[i], l[j] = l[j], l[i]
			return l
		}, Gap},
		{"a record is doubled", func(t *testing.T, l []piece) []piece {
			i := recordAt(t, l, 4)
			return slices.Insert(l, i, l[i])
		}, Gap},
		{"the tail is cut at a checkpoint", func(t *testing.T, l []piece) []piece {
			return l[:recordAt(t, l, 6)]
		}, Truncated},
		{"the tail is cut behind a record", func(t *testing.T, l []piece) []piece {
			return l[:recordAt(t, l, 6)+1]
		}, Truncated},
		{"a checkpoint is dropped", func(t *testing.T, l []piece) []piece {
			i := recordAt(t, l, 4)
			return slices.Delete(l, i+1, i+2)
		}, Gap},
		{"an inner checkpoint has another signature", func(t *testing.T, l []piece) []piece {
			i := recordAt(t, l, 4) + 1
			l[i].payload = otherSignature(t, l[i].payload)
			return l
		}, BadSignature},
		{"the last checkpoint has another signature", func(t *testing.T, l []piece) []piece {
			i := len(l) - 1
			l[i].payload = otherSignature(t, l[i].payload)
			return l
		}, BadSignature},
		{"the last checkpoint is that before it", func(t *testing.T, l []piece) []piece {
			l[len(l)-1] = l[len(l)-3]
			return l
		}, Gap},
		{"a key of somebody else signs all", func(t *testing.T, l []piece) []piece {
			origin := mustCheckpoint(t, l).Origin
			k, err := newKey(origin)
			must(t, err)
			return resign(t, edit(l, recordAt(t, l, 3), "weather", "feather"), origin, k)
		}, UnknownKey},
		{"the certificate is changed", func(t *testing.T, l []piece) []piece {
			return edit(l, 0, "isolate run key", "isolate run kex")
		}, BadSignature},
		{"it is no JSON", func(t *testing.T, l []piece) []piece {
			return edit(l, recordAt(t, l, 3), `"data":{`, `"data": {`)
		}, Damaged},
		{"it is empty", func(*testing.T, []piece) []piece { return nil }, Truncated},
	}
	p := newPlace(t)
	ids := p.sample(t, 2)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			q := place{copyDir(t, p.dir), p.key}
			forge(t, q.run(ids[0]), c.do(t, pieces(t, q.run(ids[0]))))
			r := q.verify(t, VerifyOptions{}, c.want)
			if len(r.Problems) != 1 || r.Problems[0].Log != ids[0] {
				t.Errorf("the problems are %v", r.Problems)
			}
		})
	}
}

// A checksum that is wrong shows which frame was changed; that sums of what it
// held are off then is no finding of its own.
func TestTamperingWithoutChecksum(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l) // which has a refused call
	must(t, r.Append(BlockedCounts{Total: 1}))
	seal, err := r.Close(RunEnd{Reason: "exit"})
	must(t, err)
	must(t, l.Close())
	file := p.run(seal.Run)
	b, err := os.ReadFile(file)
	must(t, err)
	before, after, found := strings.Cut(string(b), `"event":"socket.blocked"`)
	if !found {
		t.Fatal("the run has no socket.blocked")
	}
	must(t, os.WriteFile(file, []byte(before+`"event":"socket.blockec"`+after), 0o600))
	rep := p.verify(t, VerifyOptions{}, RootMismatch)
	if len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].What, "the checksum of the frame at byte") {
		t.Errorf("the problems are %v", rep.Problems)
	}
}

// Who names the private key by mistake must not find it in an error.
func TestNoKeyIsShown(t *testing.T) {
	p := newPlace(t)
	p.sample(t, 1)
	_, err := Verify(p.dir, VerifyOptions{Keys: []string{p.key.VerifierKey(), "isolate host key x\nseed\nsalt"}})
	if !errors.Is(err, ErrNotPublicKey) || strings.Contains(err.Error(), "seed") {
		t.Errorf("a private key gives %v", err)
	}
}

func mustCheckpoint(t *testing.T, l []piece) Checkpoint {
	c, err := ParseCheckpoint([]byte(l[len(l)-1].payload))
	must(t, err)
	return c
}

// otherSignature changes a bit of the signature.
func otherSignature(t *testing.T, msg string) string {
	i := strings.LastIndex(msg, " ") + 20
	c := byte('A')
	if msg[i] == c {
		c = 'B'
	}
	return msg[:i] + string(c) + msg[i+1:]
}

// The holder of a run's key, which is destroyed at its end, could have written
// the run anew: the seal in the host log has the root.
func TestRunRewrittenWithItsOwnKey(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r := begin(t, l)
	stolen := *r.key
	stolen.private = slices.Clone(r.key.private)
	must(t, r.Append(CallAccepted{Call: 1, Tool: "transfer"}, CallFinished{Call: 1, Tool: "transfer", Decision: "done"}))
	seal, err := r.Close(RunEnd{Reason: "exit"})
	must(t, err)
	must(t, l.Close())
	file := p.run(seal.Run)
	before := pieces(t, file)

	changed := slices.Clone(before)
	i := recordAt(t, changed, 3)
	changed[i].payload = strings.Replace(changed[i].payload, "transfer", "transfor", 1)
	forge(t, file, resign(t, changed, seal.Checkpoint.Origin, &stolen))
	p.verify(t, VerifyOptions{}, Fork)

	// only the end is written anew, as after "truncate, then go on sealing"
	// (CVE-2023-31438)
	longer := append(slices.Clone(before), before[len(before)-2], before[len(before)-1])
	forge(t, file, resign(t, longer, seal.Checkpoint.Origin, &stolen))
	p.verify(t, VerifyOptions{}, Fork)

	forge(t, file, before)
	p.verify(t, VerifyOptions{}, "")
}

// Every single byte counts, whatever it is part of.
func TestEveryByteCounts(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	r, err := l.Run(RunStart{Plan: "sha256:00"})
	must(t, err)
	seal, err := r.Close(RunEnd{Reason: "exit"})
	must(t, err)
	must(t, l.Close())
	step := 1
	if testing.Short() {
		step = 13
	}
	for _, file := range []string{p.run(seal.Run), p.host()} {
		whole, err := os.ReadFile(file)
		must(t, err)
		seen := map[Reason]int{}
		for i := 0; i < len(whole); i += step {
			b := slices.Clone(whole)
			b[i] ^= 1
			must(t, os.WriteFile(file, b, 0o600))
			r, err := Verify(p.dir, VerifyOptions{Keys: []string{p.key.VerifierKey()}})
			must(t, err)
			if len(r.Problems) == 0 {
				t.Fatalf("%s: byte %d (%q) can be changed", file, i, whole[max(0, i-20):i+1])
			}
			seen[r.Problems[0].Reason]++
		}
		must(t, os.WriteFile(file, whole, 0o600))
		if seen[RootMismatch] == 0 || seen[BadSignature] == 0 || seen[Damaged] == 0 {
			t.Errorf("the reasons are %v", seen)
		}
		t.Log(filepath.Base(file), seen)
	}
	p.verify(t, VerifyOptions{}, "")
}

func TestTamperingOfTheHostLog(t *testing.T) {
	p := newPlace(t)
	ids := p.sample(t, 3)
	l := pieces(t, p.host())
	cases := []struct {
		name string
		do   func(t *testing.T, q place)
		want Reason
	}{
		{"the last run's log is dropped", func(t *testing.T, q place) { must(t, os.Remove(q.run(ids[2]))) }, MissingRun},
		{"the last run is dropped from both", func(t *testing.T, q place) {
			must(t, os.Remove(q.run(ids[2])))
			forge(t, q.host(), slices.Delete(slices.Clone(l), len(l)-4, len(l)))
		}, ""}, // that is a roll-back: see TestRollBack
		{"its seal is dropped", func(t *testing.T, q place) { forge(t, q.host(), l[:len(l)-2]) }, Truncated},
		{"it is dropped from the host log", func(t *testing.T, q place) { forge(t, q.host(), l[:len(l)-4]) }, Truncated},
		{"a seal is changed", func(t *testing.T, q place) {
			c := slices.Clone(l)
			c[len(c)-2].payload = strings.Replace(c[len(c)-2].payload, `"size":10`, `"size":11`, 1)
			forge(t, q.host(), c)
		}, RootMismatch},
		{"two runs change places", func(t *testing.T, q place) {
			must(t, os.Rename(q.run(ids[0]), q.run(ids[0])+".x"))
			must(t, os.Rename(q.run(ids[1]), q.run(ids[0])))
			must(t, os.Rename(q.run(ids[0])+".x", q.run(ids[1])))
		}, Fork},
		{"a run is there twice", func(t *testing.T, q place) {
			b, err := os.ReadFile(q.run(ids[0]))
			must(t, err)
			other := ids[0][:len(ids[0])-1] + string("01"[map[bool]int{true: 1, false: 0}[ids[0][len(ids[0])-1] == '0']])
			must(t, os.WriteFile(q.run(other), b, 0o600))
		}, Fork},
		{"a run has a second log", func(t *testing.T, q place) {
			b, err := os.ReadFile(q.run(ids[0]))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(q.dir, openDir, ids[0]+logSuffix), b, 0o600))
		}, Fork},
		// Whoever can change the logs must not be able to keep others from verifying.
		{"a FIFO is in a run's place", func(t *testing.T, q place) { replace(t, q.run(ids[0]), fifo) }, Damaged},
		{"a socket is in a run's place", func(t *testing.T, q place) { replace(t, q.run(ids[0]), socket) }, Damaged},
		{"a directory is in a run's place", func(t *testing.T, q place) { replace(t, q.run(ids[0]), directory) }, Damaged},
		{"a FIFO is among the open runs", func(t *testing.T, q place) {
			must(t, fifo(filepath.Join(q.dir, openDir, ids[0]+logSuffix)))
		}, Damaged},
		{"a FIFO is in the host log's place", func(t *testing.T, q place) { replace(t, q.host(), fifo) }, Damaged},
		{"the host log is gone", func(t *testing.T, q place) { must(t, os.Remove(q.host())) }, Truncated},
		{"the key in the directory is replaced", func(t *testing.T, q place) {
			k, err := newKey("isolate-host-00000000")
			must(t, err)
			forge(t, q.host(), resign(t, strings2(l, p.key.VerifierKey(), k.VerifierKey()), mustCheckpoint(t, l).Origin, k))
			must(t, os.WriteFile(filepath.Join(q.dir, hostKey), []byte(k.VerifierKey()), 0o600))
		}, UnknownKey},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			q := place{copyDir(t, p.dir), p.key}
			c.do(t, q)
			q.verify(t, VerifyOptions{}, c.want)
		})
	}
}

// replace puts something else where a log is.
func replace(t *testing.T, name string, with func(string) error) {
	t.Helper()
	must(t, os.Remove(name))
	must(t, with(name))
}

func fifo(name string) error { return unix.Mkfifo(name, 0o600) }

func directory(name string) error { return os.Mkdir(name, 0o700) }

func socket(name string) error {
	dir, err := os.MkdirTemp("", "s") // the name of a socket has 108 bytes at most
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s")})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(os.Rename(filepath.Join(dir, "s"), name), l.Close())
}

// strings2 replaces a text in all pieces.
func strings2(l []piece, from, to string) []piece {
	out := slices.Clone(l)
	for i := range out {
		out[i].payload = strings.ReplaceAll(out[i].payload, from, to)
	}
	return out
}

// A key that was exchanged signs nothing any more, and a new one nothing of
// what was before (CVE-2023-31439).
func TestRotation(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	sampleRun(t, l)
	next, err := newKey("isolate-host-next")
	must(t, err)
	next.salt = p.key.salt
	must(t, l.Rotate(next))
	sampleRun(t, l)
	must(t, l.Close())
	p.verify(t, VerifyOptions{}, "")
	p.verify(t, VerifyOptions{Keys: []string{next.VerifierKey()}}, "")
	if _, err := Open(p.dir, Options{Key: p.key}); err == nil || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("the old key opens the log: %v", err)
	}

	list := pieces(t, p.host())
	rotated := slices.IndexFunc(list, func(x piece) bool { return strings.Contains(x.payload, `"event":"key.rotated"`) })
	origin := mustCheckpoint(t, list).Origin
	tail := slices.Clone(list)
	tail[len(tail)-1].payload = signedBy(t, tail[len(tail)-1].payload, p.key)
	forge(t, p.host(), tail)
	p.verify(t, VerifyOptions{}, UnknownKey)

	both := slices.Clone(list)
	both[rotated+1].payload = signedBy(t, both[rotated+1].payload, next)
	forge(t, p.host(), both)
	p.verify(t, VerifyOptions{}, UnknownKey)

	early := slices.Clone(list)
	early[0].payload = strings.Replace(early[0].payload, `"mono_us":`, `"mono_us":1`, 1)
	forge(t, p.host(), resign(t, early, origin, next))
	p.verify(t, VerifyOptions{Keys: []string{next.VerifierKey()}}, UnknownKey)

	forge(t, p.host(), list)
	must(t, os.Remove(filepath.Join(p.dir, hostKey)))
	p.verify(t, VerifyOptions{}, "")
}

func signedBy(t *testing.T, msg string, k note.Signer) string {
	c, err := ParseCheckpoint([]byte(msg))
	must(t, err)
	out, err := note.Sign(&note.Note{Text: c.text()}, k)
	must(t, err)
	return string(out)
}

// Only a memory elsewhere sees that everything was set back, or that the holder
// of the key wrote it anew.
func TestRollBack(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	sampleRun(t, l)
	early := l.Checkpoint()
	old := copyDir(t, p.dir)
	second := sampleRun(t, l)
	late := l.Checkpoint()
	must(t, l.Close())
	for _, anchor := range [][]byte{early, late} {
		if r := p.verify(t, VerifyOptions{Anchors: [][]byte{anchor}}, ""); r.Anchored != 1 {
			t.Errorf("%d anchors agree", r.Anchored)
		}
	}

	back := place{old, p.key}
	back.verify(t, VerifyOptions{}, "")
	back.verify(t, VerifyOptions{Anchors: [][]byte{early}}, "")
	back.verify(t, VerifyOptions{Anchors: [][]byte{late}}, RolledBack)

	list := pieces(t, p.host())
	list[0].payload = strings.Replace(list[0].payload, `"mono_us":`, `"mono_us":1`, 1)
	anew := place{copyDir(t, p.dir), p.key}
	forge(t, anew.host(), resign(t, list, mustCheckpoint(t, list).Origin, p.key))
	anew.verify(t, VerifyOptions{}, "")
	anew.verify(t, VerifyOptions{Anchors: [][]byte{early}}, Fork)

	other := newPlace(t)
	other.key = p.key
	other.sample(t, 4)
	other.verify(t, VerifyOptions{Anchors: [][]byte{late}}, Fork)
	p.verify(t, VerifyOptions{Anchors: [][]byte{[]byte(otherSignature(t, string(late)))}}, BadSignature)

	// the checkpoint of a run is one too
	b := pieces(t, p.run(second.Run))
	p.verify(t, VerifyOptions{Anchors: [][]byte{[]byte(b[len(b)-1].payload)}}, "")
}

// Whoever opens the log for writing looks at the anchor too.
// An anchor that cannot be written is found before anything is recorded.
func TestOpenNeedsAnAnchorThatCanBeWritten(t *testing.T) {
	dir := t.TempDir()
	key, err := LoadKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(dir, "missing", "anchor"), dir, "/proc/anchor"} {
		if l, err := Open(filepath.Join(dir, "log"), Options{Key: key, Anchor: FileAnchor(name)}); err == nil || !strings.Contains(err.Error(), "anchor") {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	l, err := Open(filepath.Join(dir, "log"), Options{Key: key, Anchor: FileAnchor(filepath.Join(dir, "anchor"))})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if left, _ := filepath.Glob(filepath.Join(dir, ".anchor-*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestOpenRefusesWhatTheAnchorDoesNotKnow(t *testing.T) {
	p := newPlace(t)
	anchor := FileAnchor(filepath.Join(t.TempDir(), "anchor"))
	p.sample(t, 1)
	old := copyDir(t, p.dir)
	l := p.open(t, Options{Anchor: anchor})
	sampleRun(t, l)
	must(t, l.Close())
	l = p.open(t, Options{Anchor: anchor})
	sampleRun(t, l)
	must(t, l.Close())
	msg, err := anchor.Recall()
	must(t, err)
	p.verify(t, VerifyOptions{Anchors: [][]byte{msg}}, "")

	if _, err := Open(old, Options{Key: p.key, Anchor: anchor}); err == nil || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("opening a log that was set back gives %v", err)
	}
	list := pieces(t, p.host())
	list[0].payload = strings.Replace(list[0].payload, `"mono_us":`, `"mono_us":1`, 1)
	forge(t, p.host(), resign(t, list, mustCheckpoint(t, list).Origin, p.key))
	if _, err := Open(p.dir, Options{Key: p.key, Anchor: anchor}); err == nil || !strings.Contains(err.Error(), "written anew") {
		t.Errorf("opening a log that was written anew gives %v", err)
	}

	// what cannot be asked is not waited for
	must(t, os.Remove(string(anchor)))
	must(t, fifo(string(anchor)))
	if _, err := Open(p.dir, Options{Key: p.key, Anchor: anchor}); !errors.Is(err, errNoFile) || !strings.Contains(err.Error(), "--audit-anchor") {
		t.Errorf("an anchor that is a FIFO gives %v", err)
	}
}
