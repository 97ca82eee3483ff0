package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Anchor is a memory outside of the directory of logs. Only with one can it be
// seen that a whole directory was set back, or written anew by who holds the
// key. It is better the less who holds the key can reach it.
type Anchor interface {
	// Remember keeps a signed checkpoint of the host log, which is newer than
	// those before.
	Remember(checkpoint []byte) error
	// Recall gives the newest checkpoint; nil if there is none yet.
	Recall() ([]byte, error)
}

// FileAnchor remembers in a file: on another disk, another machine's share.
type FileAnchor string

var _ Anchor = FileAnchor("")

// Remember replaces the file, durably.
func (a FileAnchor) Remember(checkpoint []byte) error {
	dir := filepath.Dir(string(a))
	f, err := os.CreateTemp(dir, ".anchor-")
	if err != nil {
		return fmt.Errorf("cannot write anchor: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(checkpoint)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), string(a))
	}
	if err != nil {
		return fmt.Errorf("cannot write anchor: %w", err)
	}
	return nil
}

// ready makes a file where Remember would, and removes it: that it cannot be
// made is to be known before something runs.
func (a FileAnchor) ready() error {
	f, err := os.CreateTemp(filepath.Dir(string(a)), ".anchor-")
	if err != nil {
		return fmt.Errorf("cannot write anchor: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Recall reads the file. A file that is not there remembers nothing yet.
func (a FileAnchor) Recall() ([]byte, error) {
	b, err := readSmall(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read anchor: %w", err)
	}
	return b, nil
}

// remember gives the newest checkpoint to the anchor. Runs of one process take
// turns, so that what is remembered never goes back.
func (l *Log) remember() error {
	if l.anchor == nil {
		return nil
	}
	l.anchoring.Lock()
	defer l.anchoring.Unlock()
	now := l.Checkpoint()
	if bytes.Equal(now, l.anchored) {
		return nil
	}
	if err := l.anchor.Remember(now); err != nil {
		return err
	}
	l.anchored = now
	return nil
}

// checkAnchor refuses to continue a log that is not what the anchor remembers.
func (l *Log) checkAnchor() error {
	if l.anchor == nil {
		return nil
	}
	const remedy = "nothing is recorded until the anchor says what it remembers: correct it, or name another with --audit-anchor"
	msg, err := l.anchor.Recall()
	if a, is := l.anchor.(interface{ ready() error }); is && err == nil {
		err = a.ready()
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, remedy)
	}
	if msg == nil {
		return nil
	}
	then, err := ParseCheckpoint(bytes.TrimLeft(msg, "\n"))
	if err != nil {
		return fmt.Errorf("cannot use anchor: %w; %s", err, remedy)
	}
	refuse := func(why string) error {
		return fmt.Errorf("cannot open audit log %q: the anchor remembers %s, %s; \"isolate audit verify --anchor\" says more", l.host.name, then, why)
	}
	switch {
	case then.Origin != l.host.origin:
		return refuse("which is another log")
	case then.Size > l.host.tree.size:
		return refuse(fmt.Sprintf("and the log has %d records only: it was rolled back", l.host.tree.size))
	}
	var t tree
	root := then.Root
	if then.Size == l.host.tree.size {
		if root != l.host.tree.root() {
			return refuse("and the log has another root: it was written anew")
		}
		return nil
	}
	err = walk(l.host.f, 0, l.host.size, &t, func(r Record) error {
		if t.size == then.Size {
			root = t.root()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot read audit log %q: %w", l.host.name, err)
	}
	if root != then.Root {
		return refuse("and the log had another root then: it was written anew")
	}
	return nil
}
