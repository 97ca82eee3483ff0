package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Reader gives the records of one log in their order. It checks the frames and
// the form of records, not signatures: Verify does that.
type Reader struct {
	f  *os.File
	at int64
	r  *frameReader
}

// OpenReader opens the log of a run, or the host log if run is empty.
func OpenReader(dir, run string) (*Reader, error) {
	f, err := openLog(dir, run)
	if err != nil {
		return nil, err
	}
	return &Reader{f: f, r: newFrameReader(f, 0)}, nil
}

func openLog(dir, run string) (*os.File, error) {
	var f *os.File
	var err error
	switch {
	case run == "":
		f, err = openFile(filepath.Join(dir, hostLog))
	case !validID(run):
		return nil, fmt.Errorf("cannot read run %q: %w", run, ErrNoRun)
	default:
		f, err = openRun(dir, run)
	}
	if errors.Is(err, os.ErrNotExist) && run != "" {
		return nil, fmt.Errorf("cannot read audit log: %q has no run %s: %w", dir, run, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	return f, nil
}

// errNoFile is something in a file's place, such as a FIFO or a directory.
var errNoFile = errors.New("it is not a file")

// openFile opens a file for reading and nothing else: a FIFO that somebody put
// in its place would let the reader wait for ever.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) { // a socket
		return nil, &os.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readSmall reads a file that is no longer than a note, or the beginning of one
// that is.
func readSmall(name string) ([]byte, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxNote))
}

// Next gives the next record. At the end, also where it ends in the middle of a
// write, it gives io.EOF; later calls give what was written since.
func (r *Reader) Next() (Record, error) {
	for {
		fr, err := r.r.next()
		if err == io.EOF || errors.Is(err, errTorn) {
			r.r = newFrameReader(io.NewSectionReader(r.f, r.at, 1<<62), r.at)
			return Record{}, io.EOF
		}
		if err == nil && !fr.sound {
			err = fmt.Errorf("%w at byte %d: the checksum is wrong", errDamaged, fr.offset)
		}
		if err != nil {
			return Record{}, fmt.Errorf("cannot read audit log: %w", err)
		}
		r.at = r.r.at
		if fr.kind == kindRecord {
			return ParseRecord(bytes.Clone(fr.payload))
		}
	}
}

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Records reads all of a log that is there now.
func Records(dir, run string, see func(Record) error) error {
	r, err := OpenReader(dir, run)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = see(rec)
		}
		if err != nil {
			return err
		}
	}
}

// LastCheckpoint gives the last signed checkpoint of a run, or of the host log
// if run is empty. It does not verify it.
func LastCheckpoint(dir, run string) ([]byte, error) {
	f, err := openLog(dir, run)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	last, err := lastCheckpoint(f, st.Size(), ParseCheckpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	return last.note, nil
}
