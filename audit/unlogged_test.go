package audit

import (
	"errors"
	"slices"
	"testing"
)

// A run without a log has its events numbered as one with a log has, and
// nothing vouches for them.
func TestUnlogged(t *testing.T) {
	var seen []Record
	u, err := NewUnlogged(func(list []Record, c Checkpoint) {
		seen = append(seen, list...)
		if c.Size != 0 {
			t.Errorf("there is a checkpoint: %v", c)
		}
	}, RunStart{Plan: "sha256:x"}, ProgramStart{Program: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.AppendLater(func(error) { t.Error("it failed") }, LimitHit{Limit: "wall"}); err != nil {
		t.Error(err)
	}
	seal, err := u.Close(RunEnd{Reason: "wall"}, ProgramEnd{Reason: "wall"})
	if err != nil || seal.Checkpoint.Size != 0 || seal.Counts["run.end"] != 1 {
		t.Errorf("%+v, %v", seal, err)
	}
	if err := u.Append(LimitHit{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	var names []Name
	for i, r := range seen {
		names = append(names, r.Event)
		if r.Seq != int64(i) || r.Run != seal.Run || r.Policy != "sha256:x" {
			t.Errorf("%+v", r)
		}
	}
	if want := []Name{"run.start", "program.start", "limit.hit", "program.end", "run.end"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	end, err := seen[len(seen)-1].Decode()
	if e, is := end.(RunEnd); err != nil || !is || e.Records != 5 {
		t.Errorf("%+v, %v", end, err)
	}
}

// Who watches a log is told exactly what is in it, with hashes that fit.
func TestWatch(t *testing.T) {
	key, err := LoadKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l, err := Open(dir, Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var seen []Record
	var last Checkpoint
	grown := tree{}
	r, err := l.RunWatched(func(list []Record, c Checkpoint) {
		for _, one := range list {
			grown.add(one.Leaf())
		}
		if seen, last = append(seen, list...), c; grown.root() != c.Root {
			t.Errorf("the root of what was told is not that of the log at %d", c.Size)
		}
	}, RunStart{Plan: "sha256:x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := r.Append(LimitHit{Limit: "wall"}, LimitHit{Limit: "cpu"}); err != nil {
			t.Fatal(err)
		}
	}
	seal, err := r.Close(RunEnd{Reason: "exit"})
	if err != nil || seal.Checkpoint != last || int64(len(seen)) != last.Size {
		t.Fatalf("%+v, %+v, %v", seal, last, err)
	}
	n := 0
	err = Records(dir, r.ID(), func(rec Record) error {
		if string(rec.Bytes) != string(seen[n].Bytes) {
			t.Errorf("record %d was told as %s", n, seen[n].Bytes)
		}
		n++
		return nil
	})
	if err != nil || n != len(seen) {
		t.Errorf("%d records, %v", n, err)
	}
}
