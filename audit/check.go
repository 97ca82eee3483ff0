package audit

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// check reads one log from its first byte to its last and finds what is wrong.
// It believes nothing.
type check struct {
	name   string // for problems: "host" or the id of a run
	origin string // empty until the first record of the host log gives it
	// known are the keys that may sign now; nil until there is one.
	known note.Verifiers
	// see is shown each record that is in order; it may change known.
	see func(Record) (Reason, error)
	// want are roots that somebody remembers, by size.
	want map[int64]tlog.Hash

	differs  []int64 // the sizes at which it is not what is remembered
	tree     tree
	problem  *Problem
	last     []byte // the last checkpoint; nil if there was none
	lastSize int64
	ends     bool   // the last frame is a checkpoint
	after    string // digest of the checkpoint before this frame; or empty
	unsound  string // the first frame whose checksum is wrong; or empty
	mismatch *Problem
	final    Record         // the last record
	rotated  note.Verifiers // the keys behind the next checkpoint; nil: the same
}

// fail keeps the first problem.
func (c *check) fail(r Reason, format string, args ...any) error {
	if c.problem == nil {
		c.problem = &Problem{r, c.name, fmt.Sprintf(format, args...)}
	}
	return errStop
}

var errStop = errors.New("something is wrong")

// liveness says whether a log is being written to.
type liveness int

const (
	finished liveness = iota
	live
)

// run reads size bytes. A live log may end in the middle of a write.
func (c *check) run(f io.ReaderAt, size int64, life liveness) error {
	r := newFrameReader(io.NewSectionReader(f, 0, size), 0)
	for {
		fr, err := r.next()
		switch {
		case err == io.EOF:
			return c.end(life, "")
		case errors.Is(err, errTorn):
			return c.end(life, err.Error())
		case errors.Is(err, errDamaged):
			c.failLate(Damaged, "%v", err)
			return nil
		case err != nil:
			return fmt.Errorf("cannot read audit log: %w", err)
		}
		if !fr.sound && c.unsound == "" {
			c.unsound = fmt.Sprintf("the checksum of the frame at byte %d is wrong", fr.offset)
		}
		if fr.kind == kindRecord {
			err = c.record(fr)
		} else {
			err = c.checkpoint(fr.payload)
		}
		if err != nil {
			return nil // in c.problem
		}
	}
}

// failLate is fail unless a root was wrong before, which says more.
func (c *check) failLate(r Reason, format string, args ...any) {
	if c.mismatch != nil {
		c.problem = c.mismatch
		return
	}
	_ = c.fail(r, format, args...)
}

func (c *check) record(fr frame) error {
	seq := c.tree.size
	if fr.sound { // of another, the tree will tell whether it was changed
		rec, err := ParseRecord(fr.payload)
		switch {
		case err != nil:
			return c.fail(Damaged, "record %d: %v", seq, err)
		case rec.Seq != seq:
			return c.fail(Gap, "where record %d belongs stands record %d", seq, rec.Seq)
		case rec.After != c.after:
			return c.afterMismatch(rec)
		}
		if reason, err := c.see(rec); err != nil {
			return c.fail(reason, "record %d: %v", seq, err)
		}
		rec.Bytes, rec.Data = nil, append(c.final.Data[:0], rec.Data...)
		c.final = rec
	}
	c.tree.add(tlog.RecordHash(fr.payload))
	c.after, c.ends = "", false
	if root, ok := c.want[c.tree.size]; ok && root != c.tree.root() {
		c.differs = append(c.differs, c.tree.size)
	}
	return nil
}

// afterMismatch finds out why a record does not follow on what is before it.
func (c *check) afterMismatch(rec Record) error {
	if c.after == "" {
		return c.fail(Gap, "a checkpoint is missing before record %d", rec.Seq)
	}
	if err := c.verify(c.last); err != nil {
		return err
	}
	if rec.After == "" {
		return c.fail(Fork, "there was no checkpoint before record %d when it was written, and there is one", rec.Seq)
	}
	return c.fail(Fork, "the checkpoint before record %d is not the one that was there when it was written", rec.Seq)
}

// checkpoint compares a checkpoint with the records before it. Signatures are
// checked at the end and where a key ends: records hold the digests of the
// checkpoints before them, so the last one vouches for all.
func (c *check) checkpoint(msg []byte) error {
	c.last, c.lastSize, c.ends = append(c.last[:0], msg...), c.tree.size, true
	c.after = digest(msg)
	p, err := ParseCheckpoint(msg)
	if err != nil {
		return c.fail(BadSignature, "the checkpoint behind record %d: %v", c.tree.size-1, err)
	}
	ok := p.Size == c.tree.size && (c.origin == "" || p.Origin == c.origin)
	same := ok && p.Root == c.tree.root()
	if c.rotated != nil {
		if err := c.verify(msg); err != nil {
			return err
		}
		c.known, c.rotated = c.rotated, nil
	}
	if same {
		if c.mismatch != nil {
			return c.fail(Fork, "%s, and those of the checkpoint behind record %d are: no log has both", c.mismatch.What, c.tree.size-1)
		}
		return nil
	}
	if err := c.verify(msg); err != nil {
		return err
	}
	switch {
	case p.Size != c.tree.size:
		return c.fail(Gap, "the checkpoint behind record %d is for %d records", c.tree.size-1, p.Size)
	case !ok:
		return c.fail(Fork, "the checkpoint behind record %d is that of log %q", c.tree.size-1, p.Origin)
	case c.mismatch == nil:
		what := fmt.Sprintf("its first %d records are not those that were signed", p.Size)
		if c.unsound != "" {
			what += "; " + c.unsound
		}
		c.mismatch = &Problem{RootMismatch, c.name, what}
	}
	return nil
}

// verify checks the signature of a checkpoint.
func (c *check) verify(msg []byte) error {
	if c.known == nil {
		return c.fail(UnknownKey, "no record says which key signs it")
	}
	_, _, err := OpenCheckpoint(msg, c.known)
	switch {
	case errors.Is(err, errUnknownKey):
		return c.fail(UnknownKey, "the checkpoint behind record %d: %v", c.lastSize-1, err)
	case err != nil:
		return c.fail(BadSignature, "the checkpoint behind record %d: %v", c.lastSize-1, err)
	}
	return nil
}

// end judges a log as a whole.
func (c *check) end(life liveness, torn string) error {
	if c.last != nil {
		if err := c.verify(c.last); err != nil {
			return nil
		}
	}
	switch {
	case c.mismatch != nil:
		c.problem = c.mismatch
	case c.unsound != "":
		_ = c.fail(Damaged, "%s", c.unsound)
	case life == live:
	case torn != "":
		_ = c.fail(Truncated, "%s", torn)
	case c.last == nil:
		_ = c.fail(Truncated, "it has no checkpoint")
	case !c.ends:
		_ = c.fail(Truncated, "no checkpoint covers its last %d records", c.tree.size-c.lastSize)
	}
	return nil
}
