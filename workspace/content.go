package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// headMax is how much of a file its type is guessed from, in bytes.
const headMax = 512

var zeros [64 << 10]byte

// content copies the bytes of one file. copy_file_range is not used: the
// digest must be of the bytes written, so they have to pass through here.
type content struct {
	ctx      context.Context
	src, dst *os.File
	buf      []byte
	sum      hash.Hash
	head     []byte
	at       int64
}

// copied is what copyContent wrote.
type copied struct {
	size int64
	sum  string
	head []byte
	note string // what happened to the source meanwhile, or empty
}

// writeError is an error of the destination, to tell it from the source's.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// copyContent copies what before says src holds, and not a byte more: a file
// that grows meanwhile is cut, one that shrinks is copied as far as it goes.
// Holes stay holes. dst is empty and only ours.
func copyContent(ctx context.Context, dst, src *os.File, before unix.Stat_t, buf []byte) (copied, error) {
	c := &content{ctx: ctx, src: src, dst: dst, buf: buf, sum: sha256.New()}
	for end := before.Size; c.at < end; {
		data, hole, err := c.extent(end)
		if err != nil {
			return copied{}, err
		}
		if err := c.skip(data); err != nil {
			return copied{}, err
		}
		short, err := c.copy(hole)
		if err != nil {
			return copied{}, err
		}
		if short {
			break
		}
	}
	if err := dst.Truncate(c.at); err != nil {
		return copied{}, writeError{err}
	}
	after, err := dirfd.Stat(src)
	if err != nil {
		return copied{}, err
	}
	return copied{
		size: c.at, head: c.head, sum: hex.EncodeToString(c.sum.Sum(nil)),
		note: c.changes(before, after),
	}, nil
}

// extent says where the next data begins and ends, at most at end. Only the
// distance to end is believed: the file may change between the two answers.
func (c *content) extent(end int64) (data, hole int64, err error) {
	data, err = c.src.Seek(c.at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		// Nothing but a hole, or the file became shorter.
		st, err := dirfd.Stat(c.src)
		rest := max(c.at, min(st.Size, end))
		if rest < end {
			// Let a read meet the new end and stop.
			return rest, end, err
		}
		return end, end, err
	case errors.Is(err, unix.EINVAL):
		return c.at, end, nil // a file system without holes
	case err != nil:
		return 0, 0, err
	}
	data = min(max(data, c.at), end)
	hole, err = c.src.Seek(data, unix.SEEK_HOLE)
	if err != nil || hole <= data {
		hole = data + int64(len(c.buf))
	}
	return data, min(hole, end), nil
}

// skip goes on to off, over a hole.
func (c *content) skip(off int64) error {
	for c.at < off {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.take(zeros[:min(off-c.at, int64(len(zeros)))])
	}
	return nil
}

// copy copies up to off; short tells that the file ended before.
func (c *content) copy(off int64) (short bool, err error) {
	for c.at < off {
		if err := c.ctx.Err(); err != nil {
			return false, err
		}
		n, err := c.src.ReadAt(c.buf[:min(off-c.at, int64(len(c.buf)))], c.at)
		if n > 0 {
			if _, err := c.dst.WriteAt(c.buf[:n], c.at); err != nil {
				return false, writeError{err}
			}
			c.take(c.buf[:n])
		}
		if err == io.EOF {
			return c.at < off, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (c *content) take(b []byte) {
	c.sum.Write(b)
	c.head = append(c.head, b[:min(len(b), headMax-len(c.head))]...)
	c.at += int64(len(b))
}

// changes compares the inode before and after. The change time is the
// kernel's: a program can move it, but not keep it.
func (c *content) changes(before, after unix.Stat_t) string {
	switch {
	case after.Size > before.Size, c.more(before.Size):
		return "grew while it was copied; cut at the size it had"
	case c.at < before.Size:
		return "became shorter while it was copied"
	case after.Ctim != before.Ctim:
		return "was changed while it was copied"
	}
	return ""
}

// more looks for bytes beyond a size of 0: files of /proc say 0 and hold some.
func (c *content) more(size int64) bool {
	if size != 0 {
		return false
	}
	n, _ := c.src.ReadAt(c.buf[:1], 0)
	return n == 1
}
