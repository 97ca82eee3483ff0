package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// VerifyOptions say what is believed.
type VerifyOptions struct {
	// Keys are the host keys that are believed, public halves. Nil means the
	// one that lies in the directory, which whoever wrote it could exchange.
	Keys []string
	// Anchors are signed checkpoints from elsewhere.
	Anchors [][]byte
	// Attestations are what Attest made, of runs in this directory.
	Attestations [][]byte
	// Run verifies one run, besides the host log. Empty means all.
	Run string
}

// Report is what verification found.
type Report struct {
	Dir string `json:"dir"`
	// Pinned is whether the key was given, not taken from the directory.
	Pinned bool `json:"pinned"`
	// Key is the id of the host key in force.
	Key string `json:"key"`
	// Host is the state of the host log, Checkpoint its last signed note.
	Host       string     `json:"host"`
	Checkpoint string     `json:"checkpoint"`
	Records    int64      `json:"records"`
	Runs       []RunState `json:"runs"`
	// Anchors is how many anchors there were, and Anchored how many of them agree.
	Anchors  int `json:"anchors"`
	Anchored int `json:"anchored"`
	// Attested is how many attestations agree.
	Attested int       `json:"attested"`
	Problems []Problem `json:"problems"`
}

// RunState is the state of one run.
type RunState struct {
	ID      string `json:"id"`
	Records int64  `json:"records"`
	// State is "ended", "running", "recovered" (its process died) or "wrong".
	State string `json:"state"`
	// Unfinished are calls that were accepted and have no end in the log: it
	// is not known what their tools did.
	Unfinished []CallAccepted `json:"unfinished,omitempty"`
}

// States of a run.
const (
	StateEnded     = "ended"
	StateRunning   = "running"
	StateRecovered = "recovered"
	StateWrong     = "wrong"
)

// verification is one call of Verify.
type verification struct {
	dir    string
	o      VerifyOptions
	report Report
	hosts  []note.Verifier // the chain of host keys, oldest first
	before map[string]runBefore
	opened map[string]RunOpened
	sealed map[string]RunSealed
	host   check
	// patience is until when logs that are empty are looked at again.
	patience time.Time
	// remembered are the anchors' checkpoints by origin and size.
	remembered map[string]map[int64]tlog.Hash
}

// runBefore is how a run was found before the host log was read.
type runBefore int

// The states.
const (
	over   runBefore = iota // it had ended, or was not there
	wentOn                  // it was being written
	began                   // it had no byte; its writer may not have locked it yet
)

// Verify reads a directory of logs, which may be anything, and reports all that
// is wrong. The error says why it could not be read.
func Verify(dir string, o VerifyOptions) (Report, error) {
	v := &verification{
		dir: dir, o: o, report: Report{Dir: dir, Pinned: len(o.Keys) > 0, Problems: []Problem{}, Runs: []RunState{}},
		before: map[string]runBefore{}, opened: map[string]RunOpened{}, sealed: map[string]RunSealed{}, remembered: map[string]map[int64]tlog.Hash{},
	}
	// Runs are looked at before the host log is read: it knows all of them, and
	// the seals of those that have ended.
	ids, err := v.list()
	if err == nil {
		err = v.findLive(ids)
	}
	if err != nil {
		return Report{}, err
	}
	v.readAnchors()
	if err := v.verifyHost(len(ids)); err != nil {
		return Report{}, err
	}
	v.report.Anchors = len(v.o.Anchors)
	v.checkAnchors(&v.host, note.VerifierList(v.hosts...))
	v.strangeAnchors()
	for _, id := range ids {
		if err := v.verifyRun(id); err != nil {
			return Report{}, err
		}
	}
	v.missingRuns(ids)
	v.attested()
	return v.report, nil
}

func (v *verification) add(p Problem) { v.report.Problems = append(v.report.Problems, p) }

// list gives the ids of the runs to verify.
func (v *verification) list() ([]string, error) {
	if v.o.Run != "" {
		if !validID(v.o.Run) {
			return nil, fmt.Errorf("cannot verify run %q: %w", v.o.Run, ErrNoRun)
		}
		return []string{v.o.Run}, nil
	}
	return Runs(v.dir)
}

// OpenRuns lists the runs whose logs are not put away yet, oldest first.
func OpenRuns(dir string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(dir, openDir))
	if err != nil {
		return nil, fmt.Errorf("cannot read audit log: %w", err)
	}
	var ids []string
	for _, e := range list {
		if id, isLog := strings.CutSuffix(e.Name(), logSuffix); isLog && validID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil // ReadDir sorts
}

// findLive finds the runs that somebody is writing.
func (v *verification) findLive(ids []string) error {
	for _, id := range ids {
		f, err := openFile(filepath.Join(v.dir, openDir, id+logSuffix))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, errNoFile) { // verifyRun tells
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read audit log: %w", err)
		}
		size, life, err := snapshot(f, 0)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		switch {
		case life == live:
			v.before[id] = wentOn
		case size == 0:
			v.before[id] = began
		}
	}
	return nil
}

// Runs lists the runs in a directory of logs, oldest first.
func Runs(dir string) ([]string, error) {
	var ids []string
	for _, pattern := range []string{filepath.Join(openDir, "*"+logSuffix), filepath.Join(runsDir, "*", "*"+logSuffix)} {
		names, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if id := strings.TrimSuffix(filepath.Base(n), logSuffix); validID(id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// validID tells whether a text can be the id of a run, and so a file's name.
func validID(id string) bool {
	const form = "dddddddd-dddddd.dddddd-hhhhhhhh"
	if len(id) != len(form) {
		return false
	}
	for i := range len(id) {
		c := id[i]
		digit := c >= '0' && c <= '9'
		switch form[i] {
		case 'd':
			if !digit {
				return false
			}
		case 'h':
			if !digit && (c < 'a' || c > 'f') {
				return false
			}
		default:
			if c != form[i] {
				return false
			}
		}
	}
	return true
}

// openRun opens the log of a run wherever it is.
func openRun(dir, id string) (*os.File, error) {
	f, err := openFile(filepath.Join(dir, openDir, id+logSuffix))
	if errors.Is(err, os.ErrNotExist) {
		f, err = openFile(filepath.Join(dir, runsDir, dayOf(id), id+logSuffix))
	}
	return f, err
}

// doubled tells whether there are two logs of one run. One that has ended is
// renamed, so it is looked for in the place to which it goes first.
func doubled(dir, id string) bool {
	_, ended := os.Lstat(filepath.Join(dir, runsDir, dayOf(id), id+logSuffix))
	_, open := os.Lstat(filepath.Join(dir, openDir, id+logSuffix))
	return ended == nil && open == nil
}

// trusted are the keys that are believed from the start.
func (v *verification) trusted() ([]note.Verifier, error) {
	keys := v.o.Keys
	if len(keys) == 0 {
		b, err := readSmall(filepath.Join(v.dir, hostKey))
		if err != nil {
			return nil, fmt.Errorf("cannot read the key of the audit log: %w; name one with --key", err)
		}
		keys = []string{strings.TrimSpace(string(b))}
	}
	var list []note.Verifier
	for i, k := range keys {
		key, err := newVerifier(strings.TrimSpace(k))
		if err != nil {
			// not its text: it may be that of a private key
			return nil, fmt.Errorf("cannot use key %d of %d: %w", i+1, len(keys), ErrNotPublicKey)
		}
		list = append(list, key)
	}
	return list, nil
}

// verifyHost checks the host log and learns from it which runs there were. Of
// runs there are so many logs.
func (v *verification) verifyHost(runs int) error {
	trusted, err := v.trusted()
	if err != nil {
		return err
	}
	f, err := openFile(filepath.Join(v.dir, hostLog))
	switch {
	case errors.Is(err, os.ErrNotExist) && runs > 0:
		v.add(Problem{Truncated, "host", "it is gone, and there are logs of runs"})
		return nil
	case errors.Is(err, errNoFile):
		v.add(Problem{Damaged, "host", errNoFile.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("cannot read audit log: %w", err)
	}
	defer f.Close()
	size, life, err := snapshot(f, lockWait)
	if err != nil {
		return err
	}
	c := &v.host
	c.name, c.see = "host", v.hostRecord
	if err := c.run(f, size, life); err != nil {
		return err
	}
	believed := slices.ContainsFunc(v.hosts, func(k note.Verifier) bool {
		return slices.ContainsFunc(trusted, func(t note.Verifier) bool { return sameKey(t, k) })
	})
	if len(v.hosts) > 0 && !believed {
		c.problem = &Problem{UnknownKey, c.name, fmt.Sprintf("it is signed by %s, which is not a key that is believed", keyID(v.hosts[len(v.hosts)-1]))}
	}
	if c.problem != nil {
		v.add(*c.problem)
	}
	v.report.Records, v.report.Checkpoint = c.tree.size, string(c.last)
	if n := len(v.hosts); n > 0 {
		v.report.Key = keyID(v.hosts[n-1])
	}
	return nil
}

// sameKey compares ids and the keys themselves: an id has 32 bits only.
func sameKey(a, b note.Verifier) bool {
	return a.Name() == b.Name() && a.KeyHash() == b.KeyHash() && keyText(a) == keyText(b)
}

// hostRecord takes what a record of the host log says.
func (v *verification) hostRecord(r Record) (Reason, error) {
	e, err := r.Decode()
	if err != nil {
		return Damaged, err
	}
	if _, first := e.(LogCreated); first != (r.Seq == 0) {
		return Damaged, errors.New("log.created is the first record and no other")
	}
	switch e := e.(type) {
	case LogCreated:
		key, err := newVerifier(e.Key)
		if err != nil {
			return Damaged, err
		}
		v.host.origin, v.host.known, v.hosts = e.Origin, note.VerifierList(key), []note.Verifier{key}
		v.host.want = v.remembered[e.Origin]
	case KeyRotated:
		key, err := newVerifier(e.Key)
		if err != nil {
			return Damaged, err
		}
		v.host.rotated = note.VerifierList(key)
		v.hosts = append(v.hosts, key)
	case RunOpened:
		if _, twice := v.opened[e.Run]; twice || !validID(e.Run) {
			return Gap, fmt.Errorf("run %q is opened twice", e.Run)
		}
		v.opened[e.Run] = e
	case RunSealed:
		if _, twice := v.sealed[e.Run]; twice || !validID(e.Run) {
			return Fork, fmt.Errorf("run %q is sealed twice", e.Run)
		}
		v.sealed[e.Run] = e
	}
	return "", nil
}

// readAnchors sorts the anchors by the log they are of. Their signatures are
// checked when the keys are known.
func (v *verification) readAnchors() {
	for _, a := range v.o.Anchors {
		c, err := ParseCheckpoint(a)
		if err != nil {
			continue // told by strangeAnchors
		}
		if v.remembered[c.Origin] == nil {
			v.remembered[c.Origin] = map[int64]tlog.Hash{}
		}
		v.remembered[c.Origin][c.Size] = c.Root
	}
}

// checkAnchors compares what is remembered elsewhere of a log that was read.
func (v *verification) checkAnchors(c *check, keys note.Verifiers) {
	for _, a := range v.o.Anchors {
		p, err := ParseCheckpoint(a)
		if err != nil || p.Origin != c.origin {
			continue
		}
		if keys == nil {
			keys = note.VerifierList()
		}
		_, _, err = OpenCheckpoint(a, keys)
		wrong := func(r Reason, format string, args ...any) {
			v.add(Problem{r, c.name, "anchor: " + fmt.Sprintf(format, args...)})
		}
		switch {
		case errors.Is(err, errUnknownKey):
			wrong(UnknownKey, "%v", err)
		case err != nil:
			wrong(BadSignature, "%v", err)
		case slices.Contains(c.differs, p.Size):
			wrong(Fork, "it remembers another root of the first %d records: the log was written anew", p.Size)
		case c.tree.size >= p.Size:
			v.report.Anchored++
		case c.problem == nil:
			wrong(RolledBack, "it remembers %d records, there are %d", p.Size, c.tree.size)
		}
	}
}

// strangeAnchors tells of anchors that are of no log here.
func (v *verification) strangeAnchors() {
	for _, a := range v.o.Anchors {
		p, err := ParseCheckpoint(a)
		switch {
		case err != nil:
			v.add(Problem{BadSignature, "anchor", err.Error()})
		case v.host.origin != "" && p.Origin != v.host.origin && !strings.HasPrefix(p.Origin, v.host.origin+"/"):
			v.add(Problem{Fork, "anchor", fmt.Sprintf("it remembers log %q, this is log %q", p.Origin, v.host.origin)})
		}
	}
}

// missingRuns tells which logs the host log knows and nobody found.
func (v *verification) missingRuns(have []string) {
	if v.o.Run != "" {
		return
	}
	var known []string
	for id := range v.opened {
		known = append(known, id)
	}
	for id := range v.sealed {
		known = append(known, id)
	}
	slices.Sort(known)
	for _, id := range slices.Compact(known) {
		if _, found := slices.BinarySearch(have, id); found {
			continue
		}
		if f, err := openRun(v.dir, id); err == nil { // it began meanwhile
			f.Close()
			continue
		}
		v.add(Problem{MissingRun, id, "the host log knows this run, and its log is gone"})
	}
}

// decodeRoot reads a hash as a seal has it.
func decodeRoot(text string) (tlog.Hash, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != tlog.HashSize {
		return tlog.Hash{}, errors.New("it is no hash")
	}
	return tlog.Hash(b), nil
}

// unmarshal reads the data of a record that is known to be in order.
func unmarshal(data []byte, v any) error {
	return json.NewDecoder(bytes.NewReader(data)).Decode(v)
}
