package audit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"
)

// How a run ended, in RunSealed.
const (
	endedEnd       = "end"
	endedRecovered = "recovered"
)

// seal writes what the log of a run came to into the host log and puts the log
// away.
func (l *Log) seal(id string, c Checkpoint, ended string, cut int64) error {
	err := l.group.do([]entry{l.entry(RunSealed{
		Run: id, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Ended: ended, Cut: cut,
	})})
	if err != nil {
		return err
	}
	if err := l.putAway(id); err != nil {
		return err
	}
	return l.remember()
}

// dayOf is the directory of a run that has ended.
func dayOf(id string) string { day, _, _ := strings.Cut(id, "-"); return day }

// putAway moves the log of a sealed run. It need not be durable: a log that is
// still among the open ones after a crash is moved then.
func (l *Log) putAway(id string) error {
	day := filepath.Join(l.dir, runsDir, dayOf(id))
	err := os.Mkdir(day, 0o700)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = os.Rename(filepath.Join(l.dir, openDir, id+logSuffix), filepath.Join(day, id+logSuffix))
	}
	if err != nil {
		return fmt.Errorf("cannot put audit log away: %w", err)
	}
	return nil
}

// maxDead bounds the files that recovery holds open at once.
const maxDead = 128

// recover seals the runs that a dead process left open. A log in which
// something is wrong is left where it is: verify says what.
func (l *Log) recover() error {
	ids, err := OpenRuns(l.dir)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		n := min(len(ids), maxDead)
		if err := l.recoverSome(ids[:n]); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

func (l *Log) recoverSome(ids []string) (err error) {
	dead := map[string]*os.File{}
	defer func() {
		for _, f := range dead {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, id := range ids {
		f, err := l.lockDead(id)
		if err != nil {
			return err
		}
		if f != nil {
			dead[id] = f
		}
	}
	if len(dead) == 0 {
		return nil
	}
	// Nobody can seal any of them now, so who has no seal gets one.
	sealed, err := l.sealedRuns()
	if err != nil {
		return err
	}
	for id, f := range dead {
		if err := l.recoverRun(f, id, sealed[id]); err != nil {
			return err
		}
	}
	return nil
}

// lockDead locks the log of a run whose process has died; nil if it lives, or
// has put its log away meanwhile.
func (l *Log) lockDead(id string) (*os.File, error) {
	name := filepath.Join(l.dir, openDir, id+logSuffix)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot recover audit log: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		locked, err := f.Stat()
		there, errThere := os.Lstat(name)
		if err == nil && errThere == nil && os.SameFile(locked, there) {
			return f, nil
		}
	}
	return nil, f.Close()
}

// sealedRuns reads from the host log which runs have a seal. It is needed after
// a crash only.
func (l *Log) sealedRuns() (map[string]bool, error) {
	unlock, err := l.lockHost()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.catchUp(); err != nil {
		return nil, err
	}
	sealed := map[string]bool{}
	err = walk(l.host.f, 0, l.host.size, &tree{}, func(r Record) error {
		if r.Event != (RunSealed{}).event() {
			return nil
		}
		var s RunSealed
		if err := json.Unmarshal(r.Data, &s); err != nil {
			return err
		}
		sealed[s.Run] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log %q: %w", l.host.name, err)
	}
	return sealed, nil
}

// recoverRun ends the log of a dead run at its last checkpoint. What is behind
// was never acknowledged: nothing was done because of it.
func (l *Log) recoverRun(f *os.File, id string, isSealed bool) error {
	file := logFile{f: f, name: f.Name(), syncs: l.syncs}
	if isSealed {
		return l.putAway(id)
	}
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot recover audit log: %w", err)
	}
	if first, _ := firstWrite(f, st.Size()); first || st.Size() == 0 {
		// it died before the first record was durable, or lives and has just lost
		// the lock to us: then it takes another name
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot recover audit log: %w", err)
		}
		return nil
	}
	c, end, ended, err := l.judgeDead(f, st.Size(), id)
	if err != nil {
		return nil // see recover
	}
	if end < st.Size() {
		if err := f.Truncate(end); err != nil {
			return file.failed("cut", err)
		}
	}
	if err := l.syncs(f); err != nil {
		return file.failed("make durable", err)
	}
	return l.seal(id, c, ended, st.Size()-end)
}

// judgeDead finds the last checkpoint of a dead run and where it ends.
func (l *Log) judgeDead(f *os.File, size int64, id string) (Checkpoint, int64, string, error) {
	origin := l.host.origin + "/" + id
	first, err := newFrameReader(io.NewSectionReader(f, 0, size), 0).next()
	if err != nil {
		return Checkpoint{}, 0, "", err
	}
	rec, err := ParseRecord(first.payload)
	if err != nil {
		return Checkpoint{}, 0, "", err
	}
	var start RunStart
	if err := json.Unmarshal(rec.Data, &start); err != nil {
		return Checkpoint{}, 0, "", err
	}
	key, err := openCert(start.Cert, origin, l.hosts)
	if err != nil {
		return Checkpoint{}, 0, "", err
	}
	last, err := lastCheckpoint(f, size, func(msg []byte) (Checkpoint, error) {
		c, _, err := OpenCheckpoint(msg, note.VerifierList(key))
		return c, err
	})
	if err != nil {
		return Checkpoint{}, 0, "", err
	}
	ended := endedRecovered
	var t tree
	err = walk(f, 0, last.end, &t, func(r Record) error {
		if r.Event == (RunEnd{}).event() {
			ended = endedEnd
		}
		return nil
	})
	if err != nil {
		return Checkpoint{}, 0, "", err
	}
	if last.checkpoint.Origin != origin || t.root() != last.checkpoint.Root {
		return Checkpoint{}, 0, "", errors.New("its records are not those of its last checkpoint")
	}
	return last.checkpoint, last.end, ended, nil
}
