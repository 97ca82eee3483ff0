package audit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Run is the log of one run. It is safe for concurrent use.
type Run struct {
	log    *Log
	id     string
	policy string
	key    *Key
	group  *group
	file   logFile
	seen   Watch

	// counts and seal.Checkpoint are the writer's, see group.
	counts map[string]int64

	closing sync.Once
	seal    Seal
	err     error
}

// Seal is what there is to be remembered of a run that has ended.
type Seal struct {
	Run string
	// Checkpoint of the run's own log, and the id of the key that signed it.
	Checkpoint Checkpoint
	Key        string
	// Counts are how many records of each event were written.
	Counts map[string]int64
	// Host is the signed checkpoint of the host log that covers the seal.
	Host []byte
}

// Watch is told what is durable: records in their order, and the checkpoint
// that covers them. One goroutine at a time calls it, and callers of Append wait
// for it. The records are its to keep. Nil is nobody.
type Watch func([]Record, Checkpoint)

// Run opens the log of a run. It returns when the first record is durable and
// the host log knows of the run: only then may anything of the run begin.
// What is known of it by then may be written along as first.
func (l *Log) Run(start RunStart, first ...Event) (*Run, error) {
	return l.RunWatched(nil, start, first...)
}

// RunWatched is Run with somebody who is told what is durable.
func (l *Log) RunWatched(w Watch, start RunStart, first ...Event) (*Run, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	l.runs.Add(1)
	l.mu.Unlock()
	r, err := l.createRun(w, start, first)
	if err != nil {
		l.runs.Done()
		return nil, err
	}
	return r, nil
}

func (l *Log) createRun(w Watch, start RunStart, first []Event) (*Run, error) {
	r := &Run{log: l, policy: start.Plan, seen: w, counts: map[string]int64{}}
	if err := r.create(); err != nil {
		return nil, err
	}
	fail := func(err error) (*Run, error) {
		r.key.destroy()
		return nil, errors.Join(err, r.file.f.Close())
	}
	var err error
	if start.Cert, err = certify(l.key(), r.key); err != nil {
		return fail(err)
	}
	r.group = newGroup(r.write)
	if err := r.Append(append([]Event{start}, first...)...); err != nil {
		return fail(err)
	}
	if err := syncDir(filepath.Dir(r.file.name)); err != nil {
		return fail(fmt.Errorf("cannot make audit directory durable: %w", err))
	}
	if err := l.group.do([]entry{l.entry(RunOpened{Run: r.id, Key: r.key.vkey})}); err != nil {
		return fail(err)
	}
	return r, nil
}

// create makes the file of the run and locks it: as long as the lock is held,
// the run goes on.
func (r *Run) create() error {
	for range 10 {
		id, err := newID(r.log.now())
		if err != nil {
			return err
		}
		name := filepath.Join(r.log.dir, openDir, id+logSuffix)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("cannot make audit log: %w", err)
		}
		r.id = id
		r.file = logFile{f: f, name: name, origin: r.log.host.origin + "/" + id, syncs: r.log.syncs}
		// Who looks for dead runs may have locked or removed the empty file.
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && r.file.linked() == nil {
			if r.key, err = newKey(r.file.origin); err != nil {
				f.Close()
			}
			return err
		}
		_ = os.Remove(name)
		f.Close()
	}
	return errors.New("cannot make audit log: it is locked again and again")
}

// newID makes the id of a run: its time, by which they sort, and random bits.
func newID(at time.Time) (string, error) {
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return at.UTC().Format("20060102-150405.000000-") + hex.EncodeToString(b), nil
}

// write is the group's write. It fills in what the last record says of all.
func (r *Run) write(batch []entry) error {
	for i, e := range batch {
		r.counts[string(e.event.event())]++
		if end, ok := e.event.(RunEnd); ok {
			end.Records, end.Counts = r.file.tree.size+int64(i)+1, r.counts
			batch[i].event = end
		}
	}
	c, _, err := r.file.write(batch, r.key)
	if err != nil {
		return err
	}
	r.seal.Checkpoint = c
	r.seen.tell(r.file.leaves, c)
	return nil
}

// tell hands records on that were just encoded.
func (w Watch) tell(leaves [][]byte, c Checkpoint) {
	if w == nil {
		return
	}
	list := make([]Record, 0, len(leaves))
	for _, b := range leaves {
		if r, err := ParseRecord(b); err == nil { // what encode has made can be read
			list = append(list, r)
		}
	}
	w(list, c)
}

// ID is the id of the run.
func (r *Run) ID() string { return r.id }

// Payload is Log.Payload.
func (r *Run) Payload(b []byte) *Payload { return r.log.Payload(b) }

// Append returns when the events are durable, in their order and with nothing
// between them. After an error no later event is written, and the caller must
// not do what it was about to do.
func (r *Run) Append(events ...Event) error {
	return r.group.do(r.entries(events))
}

// AppendLater puts the events in their place and returns without waiting: they
// are durable when events that are appended later are, and within 20 ms. Of
// what they say nothing may have to be known when the process dies. If they
// cannot be written, failed is called, maybe from another goroutine, and later
// calls fail; after an error of an earlier write this one fails at once, and
// failed is not called.
func (r *Run) AppendLater(failed func(error), events ...Event) error {
	return r.group.later(r.entries(events), failed)
}

func (r *Run) entries(events []Event) []entry {
	list := make([]entry, len(events))
	for i, e := range events {
		list[i] = r.log.entry(e)
		list[i].run, list[i].policy = r.id, r.policy
	}
	return list
}

// Close writes the events of last and the last record, destroys the run's key and seals the run in the
// host log. Events that others append meanwhile fail. Calling it again gives
// the same answer. After an error the run has no seal; the next Open makes one
// of what is durable.
func (r *Run) Close(end RunEnd, last ...Event) (Seal, error) {
	r.closing.Do(func() {
		defer r.log.runs.Done()
		r.err = r.finish(append(last, end))
	})
	return r.seal, r.err
}

func (r *Run) finish(last []Event) error {
	err := r.group.finish(ErrClosed, r.entries(last))
	r.seal.Run, r.seal.Key, r.seal.Counts = r.id, keyID(r.key), r.counts
	r.key.destroy()
	if err == nil {
		err = r.log.seal(r.id, r.seal.Checkpoint, endedEnd, 0)
		r.seal.Host = r.log.Checkpoint()
	}
	return errors.Join(err, r.file.f.Close())
}
