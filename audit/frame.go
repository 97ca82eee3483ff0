package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
)

// kind is what a frame holds.
type kind byte

const (
	kindRecord     kind = 'r'
	kindCheckpoint kind = 'c'
)

const (
	headerSize = len("r 00000000 00000000 ")
	// maxFrame bounds what a frame may hold, and so the memory of a reader.
	maxFrame = 256 << 10
)

// crcTable is made at first use: a process that only builds a cell does not
// pay for it.
var crcTable = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func checksum(k kind, payload []byte) uint32 {
	t := crcTable()
	return crc32.Update(crc32.Checksum([]byte{byte(k)}, t), t, payload)
}

func appendFrame(dst []byte, k kind, payload []byte) []byte {
	dst = fmt.Appendf(dst, "%c %08x %08x ", k, len(payload), checksum(k, payload))
	return append(append(dst, payload...), '\n')
}

// frame is one frame as it was read. Nothing in it is to be believed.
type frame struct {
	kind    kind
	payload []byte // valid until the next call of next
	offset  int64  // where the frame begins
	sound   bool   // the checksum fits
}

// errTorn is the end of a file that was cut within a frame; errDamaged is
// something that is no frame before the end.
var (
	errTorn    = errors.New("the file ends within a frame")
	errDamaged = errors.New("there is no frame")
)

// frameReader reads frames one after the other.
type frameReader struct {
	r   *bufio.Reader
	at  int64 // where the next frame begins
	buf []byte
}

func newFrameReader(r io.Reader, at int64) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 1<<20), at: at}
}

// next gives io.EOF at the end, an error that is errTorn or errDamaged, or one
// of reading.
func (f *frameReader) next() (frame, error) {
	f.buf = append(f.buf[:0], make([]byte, headerSize)...)
	n, err := io.ReadFull(f.r, f.buf)
	if err == io.EOF {
		return frame{}, io.EOF
	}
	if err == io.ErrUnexpectedEOF {
		return frame{}, f.cut(f.buf[:n])
	}
	if err != nil {
		return frame{}, err
	}
	k, length, crc, ok := parseHeader(f.buf)
	if !ok {
		return frame{}, fmt.Errorf("%w at byte %d", errDamaged, f.at)
	}
	need := headerSize + length + 1
	if cap(f.buf) < need {
		f.buf = append(make([]byte, 0, need), f.buf...)
	}
	f.buf = f.buf[:need]
	n, err = io.ReadFull(f.r, f.buf[headerSize:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return frame{}, f.cut(f.buf[:headerSize+n])
	}
	if err != nil {
		return frame{}, err
	}
	payload := f.buf[headerSize : need-1]
	if f.buf[need-1] != '\n' {
		return frame{}, fmt.Errorf("%w at byte %d", errDamaged, f.at)
	}
	out := frame{k, payload, f.at, checksum(k, payload) == crc}
	f.at += int64(need)
	return out, nil
}

// cut judges what is left at the end of the file. If there is a frame in it,
// it was not the end that went but a length that was changed.
func (f *frameReader) cut(rest []byte) error {
	if holdsFrame(rest) || rest[0] != byte(kindRecord) && rest[0] != byte(kindCheckpoint) {
		return fmt.Errorf("%w at byte %d", errDamaged, f.at)
	}
	return fmt.Errorf("%w at byte %d", errTorn, f.at)
}

// holdsFrame tells whether a line within b begins like a frame.
func holdsFrame(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return false
		}
		b = b[i+1:]
		if _, _, _, ok := parseHeader(b); ok {
			return true
		}
	}
}

func parseHeader(b []byte) (k kind, length int, crc uint32, ok bool) {
	if len(b) < headerSize || b[1] != ' ' || b[10] != ' ' || b[19] != ' ' {
		return 0, 0, 0, false
	}
	k = kind(b[0])
	l, errLength := parseHex(b[2:10])
	c, errSum := parseHex(b[11:19])
	ok = (k == kindRecord || k == kindCheckpoint) && errLength == nil && errSum == nil && l > 0 && l <= maxFrame
	return k, int(l), c, ok
}

// parseHex reads exactly what appendFrame writes.
func parseHex(b []byte) (uint32, error) {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, errDamaged
		}
	}
	v, err := strconv.ParseUint(string(b), 16, 32)
	return uint32(v), err
}
