package audit

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"
)

// maxTail bounds how far from the end of a log its last checkpoint is looked
// for: many times the longest batch.
const maxTail = 16 << 20

// checkpointStart is the end of a frame and the beginning of a checkpoint. A
// record has no line break in it, and a log does not begin with a checkpoint.
var checkpointStart = []byte("\nc ")

// tail is the last checkpoint of a log.
type tail struct {
	note       []byte
	checkpoint Checkpoint
	start, end int64 // of its frame
}

// lastCheckpoint looks for it from the end, so that what a crash left behind
// it, however it looks, does not matter. believe tells whether a note is signed
// by who should have.
func lastCheckpoint(f io.ReaderAt, size int64, believe func([]byte) (Checkpoint, error)) (tail, error) {
	for window := int64(64 << 10); ; window *= 4 {
		window = min(window, size, maxTail)
		buf := make([]byte, window)
		if n, err := f.ReadAt(buf, size-window); int64(n) < window {
			return tail{}, fmt.Errorf("cannot read its end: %w", err)
		}
		for upTo := len(buf); ; {
			upTo = bytes.LastIndex(buf[:upTo], checkpointStart)
			if upTo < 0 {
				break
			}
			at := upTo + 1
			start := size - window + int64(at)
			r := newFrameReader(bytes.NewReader(buf[at:]), start)
			fr, err := r.next()
			if err != nil || !fr.sound {
				continue
			}
			c, err := believe(fr.payload)
			if err != nil {
				// A crash leaves no whole checkpoint of somebody else.
				return tail{}, fmt.Errorf("its last checkpoint cannot be believed: %w", err)
			}
			return tail{bytes.Clone(fr.payload), c, start, r.at}, nil
		}
		if window == size || window == maxTail {
			return tail{}, errNoTail
		}
	}
}

var errNoTail = fmt.Errorf("it has no checkpoint in its last %d bytes", maxTail)

// walk reads the frames between two offsets, which must be in order, and adds
// the records to t. see, which may be nil, is shown each record.
func walk(f io.ReaderAt, from, to int64, t *tree, see func(Record) error) error {
	r := newFrameReader(io.NewSectionReader(f, from, to-from), from)
	for {
		fr, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !fr.sound:
			return fmt.Errorf("%w at byte %d: the checksum is wrong", errDamaged, fr.offset)
		case fr.kind == kindCheckpoint:
			c, err := ParseCheckpoint(fr.payload)
			if err != nil || c.Size != t.size || c.Root != t.root() {
				return fmt.Errorf("the checkpoint at byte %d is not that of the records before it", fr.offset)
			}
			continue
		}
		rec, err := ParseRecord(bytes.Clone(fr.payload))
		if err != nil {
			return fmt.Errorf("the record at byte %d: %w", fr.offset, err)
		}
		if rec.Seq != t.size {
			return fmt.Errorf("the record at byte %d says that it is record %d and is record %d", fr.offset, rec.Seq, t.size)
		}
		t.add(tlog.RecordHash(rec.Bytes))
		if see != nil {
			if err := see(rec); err != nil {
				return err
			}
		}
	}
}
