package audit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"
)

// lockWait is how long a writer of the host log may take: it holds the lock
// for one write.
const lockWait = 5 * time.Second

// snapshot gives how much of a log is to be read, and whether it is being
// written to: then it stays locked for longer than patience.
func snapshot(f *os.File, patience time.Duration) (int64, liveness, error) {
	life := finished
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return 0, 0, fmt.Errorf("cannot lock audit log: %w", err)
		}
		if time.Now().After(until) {
			life = live
			break
		}
	}
	st, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read audit log: %w", err)
	}
	if life == finished {
		err = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return st.Size(), life, err
}

// runCheck is the check of one run.
type runCheck struct {
	check
	v      *verification
	id     string
	counts map[string]int64
	totals totals
}

// open opens the log of a run and says how much of it there is. One that is empty,
// and that the host log does not know, is looked at again for a while: its writer
// may not have locked it yet, or may be about to remove it because somebody else
// has, who looks as we do. What is gone then was no log: f is nil.
func (v *verification) open(id string) (f *os.File, size int64, life liveness, err error) {
	_, opened := v.opened[id]
	_, sealed := v.sealed[id]
	for unknown := !opened && !sealed; ; time.Sleep(2 * time.Millisecond) {
		f, err = openRun(v.dir, id)
		if unknown && v.o.Run == "" && errors.Is(err, os.ErrNotExist) {
			return nil, 0, 0, nil
		}
		if err != nil {
			return nil, 0, 0, err
		}
		if size, life, err = snapshot(f, 0); err != nil {
			f.Close()
			return nil, 0, 0, err
		}
		if size > 0 || life == live || !unknown {
			return f, size, life, nil
		}
		if v.patience.IsZero() {
			v.patience = time.Now().Add(lockWait)
		}
		if time.Now().After(v.patience) {
			return f, size, life, nil
		}
		f.Close()
		v.before[id] = began
	}
}

func (v *verification) verifyRun(id string) error {
	f, size, life, err := v.open(id)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			v.add(Problem{MissingRun, id, "there is no log of it"})
			return nil
		}
		if errors.Is(err, errNoFile) {
			v.add(Problem{Damaged, id, errNoFile.Error()})
			return nil
		}
		return fmt.Errorf("cannot read audit log: %w", err)
	}
	if f == nil {
		return nil
	}
	defer f.Close()
	if was := v.before[id]; was == wentOn || was == began && size > 0 {
		life = live
	}
	r := &runCheck{v: v, id: id, counts: map[string]int64{}, totals: newTotals()}
	r.name, r.origin, r.see = id, v.host.origin+"/"+id, r.record
	r.want = v.remembered[r.origin]
	if o, known := v.opened[id]; known {
		if key, err := newVerifier(o.Key); err == nil {
			r.known = note.VerifierList(key)
		}
	}
	if err := r.run(f, size, life); err != nil {
		return err
	}
	v.checkAnchors(&r.check, r.known)
	state := r.conclude(life)
	if doubled(v.dir, id) {
		_ = r.fail(Fork, "there are two logs of it, in %s and in %s", openDir, runsDir) // unless something else was wrong
	}
	if r.totals.wrong != "" {
		_ = r.fail(Gap, "%s", r.totals.wrong) // unless something else was wrong
	}
	if r.problem != nil {
		v.add(*r.problem)
		state = StateWrong
	}
	s := RunState{ID: id, Records: r.tree.size, State: state}
	for _, call := range slices.Sorted(maps.Keys(r.totals.open)) {
		var e CallAccepted
		_ = unmarshal(r.totals.open[call], &e) // its form was checked
		s.Unfinished = append(s.Unfinished, e)
	}
	v.report.Runs = append(v.report.Runs, s)
	return nil
}

// record takes what a record of a run says.
func (r *runCheck) record(rec Record) (Reason, error) {
	r.counts[string(rec.Event)]++
	if rec.Run != r.id {
		return Fork, fmt.Errorf("it is of run %q", rec.Run)
	}
	if (rec.Event == RunStart{}.event()) != (rec.Seq == 0) {
		return Damaged, errors.New("run.start is the first record and no other")
	}
	if rec.Seq == 0 {
		return r.start(rec)
	}
	if err := r.totals.add(rec); err != nil {
		return Damaged, err
	}
	return "", nil
}

// start takes the key of the run from its first record.
func (r *runCheck) start(rec Record) (Reason, error) {
	var e RunStart
	if err := unmarshal(rec.Data, &e); err != nil {
		return Damaged, err
	}
	key, err := openCert(e.Cert, r.origin, note.VerifierList(r.v.hosts...))
	switch {
	case errors.Is(err, errBadSignature):
		return BadSignature, fmt.Errorf("the certificate of the run's key: %w", err)
	case err != nil:
		return UnknownKey, fmt.Errorf("the certificate of the run's key: %w", err)
	}
	if o, known := r.v.opened[r.id]; known && o.Key != keyText(key) {
		return Fork, errors.New("the host log has another key for this run")
	}
	r.known = note.VerifierList(key)
	return "", nil
}

// conclude compares the log with its end and with its seal.
func (r *runCheck) conclude(life liveness) string {
	if r.problem != nil {
		return StateWrong
	}
	ended := r.final.Event == RunEnd{}.event()
	seal, sealed := r.v.sealed[r.id]
	if !sealed {
		return r.unsealed(life, ended)
	}
	root, err := decodeRoot(seal.Root)
	switch {
	case err != nil:
		_ = r.fail(Damaged, "its seal in the host log: %v", err)
	case r.tree.size < seal.Size:
		_ = r.fail(Truncated, "it has %d records, its seal says %d", r.tree.size, seal.Size)
	case r.tree.size > seal.Size:
		_ = r.fail(Fork, "it goes on after its seal: it has %d records, the seal says %d", r.tree.size, seal.Size)
	case r.tree.root() != root:
		_ = r.fail(Fork, "its records are not those of its seal in the host log")
	case seal.Ended == endedEnd && !ended:
		_ = r.fail(MissingEnd, "run.end is not its last record")
	case ended:
		r.addUp()
	}
	if seal.Ended == endedRecovered {
		return StateRecovered
	}
	return StateEnded
}

// unsealed is a run of which the host log does not know an end.
func (r *runCheck) unsealed(life liveness, ended bool) string {
	_, opened := r.v.opened[r.id]
	switch {
	case life == live:
		return StateRunning
	case ended:
		_ = r.fail(Truncated, "it has an end, and the host log has no seal of it: the end of the host log is gone, or the process died in between")
	case !opened:
		_ = r.fail(Truncated, "the host log does not know it: the end of the host log is gone, or the process died in between")
	default:
		_ = r.fail(MissingEnd, "it has no end: its process died and nobody has opened the log since, or the end was taken away")
	}
	return StateWrong
}

// addUp compares what run.end counts with what there is.
func (r *runCheck) addUp() {
	var end RunEnd
	if err := unmarshal(r.final.Data, &end); err != nil {
		_ = r.fail(Damaged, "run.end: %v", err)
		return
	}
	if end.Records != r.tree.size || !maps.Equal(end.Counts, r.counts) {
		_ = r.fail(Gap, "run.end counts %d records %v, there are %d %v", end.Records, end.Counts, r.tree.size, r.counts)
	}
}
