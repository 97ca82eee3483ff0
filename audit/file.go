package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sys/unix"
)

// logFile is a log that is written to. One goroutine at a time uses it.
type logFile struct {
	f      *os.File
	name   string // its path, for errors
	origin string
	size   int64 // bytes that are frames
	tree   tree
	after  string   // digest of the checkpoint that is the last frame; empty at the start
	hashes stored   // what the last write added to the tree
	leaves [][]byte // the records of the last write
	syncs  syncer
}

// syncer makes what was written durable. Tests give one that fails.
type syncer func(*os.File) error

func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// entry is an event that waits to be written.
type entry struct {
	event  Event
	time   time.Time
	mono   time.Duration
	run    string
	policy string
}

// envelope is the entry as the record number seq.
func (e entry) envelope(seq int64, after string) envelope {
	return envelope{
		After: after, Data: e.event, Seq: seq, Run: e.run, Policy: e.policy,
		Time: e.time.UTC().Format(timeForm), Mono: e.mono.Microseconds(),
	}
}

// write appends a batch and its checkpoint and makes both durable. After an
// error nothing is known of what is on disk, and the file is not to be used
// any more.
func (l *logFile) write(batch []entry, signers ...note.Signer) (Checkpoint, []byte, error) {
	var out []byte
	after := l.after
	l.hashes, l.leaves = l.hashes[:0], l.leaves[:0]
	for _, e := range batch {
		b, err := encode(e.envelope(l.tree.size, after))
		if err != nil {
			return Checkpoint{}, nil, err
		}
		after = ""
		l.leaves = append(l.leaves, b)
		l.tree.grow(tlog.RecordHash(b), func(h tlog.Hash) { l.hashes = append(l.hashes, h) })
		out = appendFrame(out, kindRecord, b)
	}
	c := Checkpoint{l.origin, l.tree.size, l.tree.root()}
	msg, err := note.Sign(&note.Note{Text: c.text()}, signers...)
	if err != nil {
		return Checkpoint{}, nil, fmt.Errorf("cannot sign checkpoint: %w", err)
	}
	out = appendFrame(out, kindCheckpoint, msg)
	if err := l.whole(); err != nil {
		return Checkpoint{}, nil, err
	}
	if _, err := l.f.WriteAt(out, l.size); err != nil {
		return Checkpoint{}, nil, l.failed("write", err)
	}
	if err := l.syncs(l.f); err != nil {
		return Checkpoint{}, nil, l.failed("make durable", err)
	}
	if err := l.linked(); err != nil {
		return Checkpoint{}, nil, err
	}
	l.size += int64(len(out))
	l.after = digest(msg)
	return c, msg, nil
}

func (l *logFile) failed(verb string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	hint := ""
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		hint = "; free space on its disk"
	}
	return fmt.Errorf("cannot %s audit log %q: %w%s", verb, l.name, err, hint)
}

// whole tells whether what was written is still there: writing behind what was
// cut off succeeds, and what no record can be believed without is lost.
func (l *logFile) whole() error {
	st, err := l.f.Stat()
	if err != nil {
		return l.failed("look at", err)
	}
	if st.Size() < l.size {
		return fmt.Errorf("cannot write audit log %q: it was truncated", l.name)
	}
	return nil
}

// linked tells whether the file still has a name: writing to one that was
// deleted succeeds, and is lost.
func (l *logFile) linked() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(l.f.Fd()), &st); err != nil {
		return l.failed("look at", err)
	}
	if st.Nlink == 0 {
		return fmt.Errorf("cannot write audit log %q: it was deleted", l.name)
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
