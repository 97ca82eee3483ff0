package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// believe opens a checkpoint of the host log.
func (l *Log) believe(msg []byte) (Checkpoint, error) {
	c, _, err := OpenCheckpoint(msg, l.hosts)
	return c, err
}

// readHost takes over a host log that is there: from its last checkpoint and
// the stored hashes, without reading it, if these fit together.
func (l *Log) readHost(size int64) error {
	last, err := lastCheckpoint(l.host.f, size, l.believe)
	if errors.Is(err, errNoTail) {
		if first, errFirst := firstWrite(l.host.f, size); errFirst == nil && first {
			// the process died before the first record was durable
			if err := l.host.f.Truncate(0); err != nil {
				return l.host.failed("cut", err)
			}
			return l.createHost()
		}
	}
	if err != nil {
		return fmt.Errorf("cannot open audit log %q: %w; \"isolate audit verify\" says more", l.host.name, err)
	}
	l.host.origin = last.checkpoint.Origin
	t, root, err := l.storedTree(last.checkpoint.Size)
	if err != nil || root != last.checkpoint.Root {
		if t, err = l.rebuild(last); err != nil {
			return fmt.Errorf("cannot open audit log %q: %w; \"isolate audit verify\" says more", l.host.name, err)
		}
	}
	l.host.tree = t
	return l.settle(last, size)
}

// firstWrite tells whether a file has nothing but a beginning of a frame.
func firstWrite(f *os.File, size int64) (bool, error) {
	_, err := newFrameReader(io.NewSectionReader(f, 0, size), 0).next()
	return size < maxFrame && errors.Is(err, errTorn), nil
}

// settle ends the host log at its last checkpoint. What is behind was never
// acknowledged to anybody, and nobody vouches for it: it is cut off, and that
// is recorded.
func (l *Log) settle(last tail, size int64) error {
	l.host.size, l.host.after = last.end, digest(last.note)
	l.setLatest(last.note)
	if size == last.end {
		return nil
	}
	if err := l.host.f.Truncate(last.end); err != nil {
		return l.host.failed("cut", err)
	}
	return l.writeLocked([]entry{l.entry(LogRecovered{Cut: size - last.end})})
}

// catchUp takes over what other processes have written to the locked host log
// since this one did.
func (l *Log) catchUp() error {
	st, err := l.host.f.Stat()
	if err != nil {
		return l.host.failed("look at", err)
	}
	size := st.Size()
	switch {
	case size == l.host.size:
		return nil
	case size < l.host.size:
		return fmt.Errorf("cannot write audit log %q: it was truncated", l.host.name)
	}
	last, err := lastCheckpoint(l.host.f, size, l.believe)
	if err == nil && last.end >= l.host.size {
		err = walk(l.host.f, l.host.size, last.end, &l.host.tree, nil)
	}
	if err != nil || last.checkpoint.Origin != l.host.origin || last.checkpoint.Root != l.host.tree.root() {
		return fmt.Errorf("cannot write audit log %q: it was changed meanwhile: %v; \"isolate audit verify\" says more", l.host.name, err)
	}
	return l.settle(last, size)
}

// storedTree is the edge of the tree as host.hashes has it, and its root.
func (l *Log) storedTree(size int64) (tree, tlog.Hash, error) {
	f, err := openFile(filepath.Join(l.dir, hostHashes))
	if err != nil {
		return tree{}, tlog.Hash{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return tree{}, tlog.Hash{}, err
	}
	if st.Size() != tlog.StoredHashCount(size)*tlog.HashSize {
		return tree{}, tlog.Hash{}, errNoHash
	}
	return treeFrom(size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			if _, err := f.ReadAt(out[i][:], index*tlog.HashSize); err != nil {
				return nil, err
			}
		}
		return out, nil
	}))
}

// storeHashes adds what was just written to host.hashes. The file is a help
// only: where it does not fit, nothing is done, and who opens the log next
// makes it anew.
func (l *Log) storeHashes(before int64) {
	f, err := os.OpenFile(filepath.Join(l.dir, hostHashes), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	at := tlog.StoredHashCount(before) * tlog.HashSize
	if st, err := f.Stat(); err != nil || st.Size() != at {
		return
	}
	_, _ = f.WriteAt(bytesOf(l.host.hashes), at)
}

func bytesOf(list stored) []byte {
	out := make([]byte, 0, len(list)*tlog.HashSize)
	for _, h := range list {
		out = append(out, h[:]...)
	}
	return out
}

// rebuild reads the whole log up to its last checkpoint and makes host.hashes.
func (l *Log) rebuild(last tail) (tree, error) {
	var t, again tree
	var all stored
	err := walk(l.host.f, 0, last.end, &t, func(r Record) error {
		again.grow(tlog.RecordHash(r.Bytes), func(h tlog.Hash) { all = append(all, h) })
		return nil
	})
	if err != nil {
		return tree{}, err
	}
	if t.root() != last.checkpoint.Root {
		return tree{}, errors.New("its records are not those of its last checkpoint")
	}
	name := filepath.Join(l.dir, hostHashes)
	if os.WriteFile(name+".new", bytesOf(all), 0o600) == nil {
		_ = os.Rename(name+".new", name)
	}
	return t, nil
}

// Rotate exchanges the host key. The record of it is signed by both keys; from
// then on the log can only be opened with the new one.
func (l *Log) Rotate(to Signer) error {
	v, err := note.NewVerifier(to.VerifierKey())
	if err != nil {
		return fmt.Errorf("cannot use the new key of the audit log: %w", err)
	}
	return l.group.alone(func() error { return l.rotate(to, v) })
}

func (l *Log) rotate(to Signer, v note.Verifier) error {
	unlock, err := l.lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.catchUp(); err != nil {
		return err
	}
	before := l.host.tree.size
	_, msg, err := l.host.write([]entry{l.entry(KeyRotated{Key: to.VerifierKey()})}, l.key(), to)
	if err != nil {
		return err
	}
	l.storeHashes(before)
	l.setLatest(msg)
	l.mu.Lock()
	l.signer, l.hosts = to, note.VerifierList(v)
	l.mu.Unlock()
	if err := os.WriteFile(filepath.Join(l.dir, hostKey), []byte(to.VerifierKey()+"\n"), 0o644); err != nil {
		return fmt.Errorf("cannot write audit key: %w", err)
	}
	return nil
}
