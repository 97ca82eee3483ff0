package audit

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Inclusion proves that a record is in a log: RFC 6962, section 2.1.1.
type Inclusion struct {
	// Record is the leaf: the exact bytes of the record.
	Record string `json:"record"`
	Index  int64  `json:"index"`
	// Path are the hashes from the leaf's sibling to the root's child.
	Path []tlog.Hash `json:"path"`
	// Checkpoint is the signed note that has the size and the root.
	Checkpoint string `json:"checkpoint"`
}

// Proof is what somebody needs who has neither the log nor this program.
type Proof struct {
	Inclusion
	// Key is the public half of the key that signed the checkpoint.
	Key string `json:"key"`
	// Cert and Seal are for a record of a run. Cert is the note in which the
	// host key vouches for Key; Seal proves that the host log has the run's
	// seal, and is nil while there is none.
	Cert string     `json:"cert,omitempty"`
	Seal *Inclusion `json:"seal,omitempty"`
	// HostKey is the public half of the host key.
	HostKey string `json:"host_key"`
}

// Consistency proves that a log continues one that somebody remembers: RFC
// 6962, section 2.1.2.
type Consistency struct {
	// Old is the remembered checkpoint.
	OldSize int64     `json:"old_size"`
	OldRoot tlog.Hash `json:"old_root"`
	// Path are the hashes of the proof; empty if nothing was added.
	Path       []tlog.Hash `json:"path"`
	Checkpoint string      `json:"checkpoint"`
	Key        string      `json:"key"`
}

// loaded is a log in memory, as far as proofs need it.
type loaded struct {
	hashes stored
	last   tail
	first  Record
	found  map[int64]Record
}

// load reads a log and keeps the records for which keep says so.
func load(dir, run string, keep func(Record) bool) (loaded, error) {
	f, err := openLog(dir, run)
	if err != nil {
		return loaded{}, err
	}
	defer f.Close()
	l := loaded{found: map[int64]Record{}}
	st, err := f.Stat()
	if err != nil {
		return loaded{}, fmt.Errorf("cannot read audit log: %w", err)
	}
	if l.last, err = lastCheckpoint(f, st.Size(), ParseCheckpoint); err != nil {
		return loaded{}, fmt.Errorf("cannot read audit log: %w", err)
	}
	var t, again tree
	err = walk(f, 0, l.last.end, &t, func(r Record) error {
		again.grow(tlog.RecordHash(r.Bytes), func(h tlog.Hash) { l.hashes = append(l.hashes, h) })
		if r.Seq == 0 {
			l.first = r
		}
		if keep(r) {
			l.found[r.Seq] = r
		}
		return nil
	})
	if err == nil && t.root() != l.last.checkpoint.Root {
		err = errors.New("its records are not those of its last checkpoint")
	}
	if err != nil {
		return loaded{}, fmt.Errorf("cannot prove anything from this audit log: %w", err)
	}
	return l, nil
}

func (l loaded) inclusion(seq int64) (Inclusion, error) {
	rec, found := l.found[seq]
	if !found {
		return Inclusion{}, fmt.Errorf("cannot prove record %d: %w: the log has %d", seq, ErrNoRecord, l.last.checkpoint.Size)
	}
	path, err := tlog.ProveRecord(l.last.checkpoint.Size, seq, l.hashes)
	if err != nil {
		return Inclusion{}, fmt.Errorf("cannot prove record %d: %w", seq, err)
	}
	return Inclusion{string(rec.Bytes), seq, path, string(l.last.note)}, nil
}

// Prove makes the proof of one record of a run, or of the host log if run is
// empty. It does not verify the log.
func Prove(dir, run string, seq int64) (Proof, error) {
	l, err := load(dir, run, func(r Record) bool { return r.Seq == seq })
	if err != nil {
		return Proof{}, err
	}
	in, err := l.inclusion(seq)
	if err != nil {
		return Proof{}, err
	}
	host, seal := l, int64(-1)
	if run != "" {
		host, err = load(dir, "", func(r Record) bool {
			if r.Event != (RunSealed{}).event() {
				return false
			}
			var e RunSealed
			if unmarshal(r.Data, &e) == nil && e.Run == run {
				seal = r.Seq
				return true
			}
			return false
		})
		if err != nil {
			return Proof{}, err
		}
	}
	p := Proof{Inclusion: in}
	if p.HostKey, err = hostKeyOf(dir, host); err != nil {
		return Proof{}, err
	}
	if p.Key = p.HostKey; run == "" {
		return p, nil
	}
	var start RunStart
	if err := unmarshal(l.first.Data, &start); err != nil {
		return Proof{}, fmt.Errorf("cannot read run.start: %w", err)
	}
	p.Cert = start.Cert
	if p.Key, err = certifiedKey(start.Cert); err != nil {
		return Proof{}, err
	}
	if seal >= 0 {
		s, err := host.inclusion(seal)
		if err != nil {
			return Proof{}, err
		}
		p.Seal = &s
	}
	return p, nil
}

// ProveConsistency proves that a log continues the one of a checkpoint.
func ProveConsistency(dir, run string, old Checkpoint) (Consistency, error) {
	l, err := load(dir, run, func(Record) bool { return false })
	if err != nil {
		return Consistency{}, err
	}
	now := l.last.checkpoint
	switch {
	case old.Origin != now.Origin:
		return Consistency{}, fmt.Errorf("cannot prove anything of log %q: this is log %q", old.Origin, now.Origin)
	case old.Size > now.Size || old.Size < 1:
		return Consistency{}, fmt.Errorf("cannot prove that %d records continue %d", now.Size, old.Size)
	}
	then, err := tlog.TreeHash(old.Size, l.hashes)
	if err != nil || then != old.Root {
		return Consistency{}, fmt.Errorf("cannot prove that the log continues %s: its first records had another root", old)
	}
	path, err := tlog.ProveTree(now.Size, old.Size, l.hashes)
	if err != nil {
		return Consistency{}, fmt.Errorf("cannot prove consistency: %w", err)
	}
	c := Consistency{OldSize: old.Size, OldRoot: old.Root, Path: path, Checkpoint: string(l.last.note)}
	if run == "" {
		c.Key, err = hostKeyOf(dir, l)
		return c, err
	}
	var start RunStart
	if err := unmarshal(l.first.Data, &start); err != nil {
		return Consistency{}, fmt.Errorf("cannot read run.start: %w", err)
	}
	c.Key, err = certifiedKey(start.Cert)
	return c, err
}

// hostKeyOf is the key in the directory, or the log's first if it is not that
// which signed last.
func hostKeyOf(dir string, host loaded) (string, error) {
	v := &verification{dir: dir}
	keys, err := v.trusted()
	if err != nil {
		return "", err
	}
	if _, _, err := OpenCheckpoint(host.last.note, note.VerifierList(keys...)); err != nil {
		return "", fmt.Errorf("cannot say which key signed the log: %w", err)
	}
	return keyText(keys[0]), nil
}

// certifiedKey reads the key out of a certificate.
func certifiedKey(cert string) (string, error) {
	_, _, key, err := splitCert(cert)
	return key, err
}

// Check checks a proof with nothing but a host key that is believed.
func (p Proof) Check(hostKey string) error {
	host, err := newVerifier(hostKey)
	if err != nil {
		return fmt.Errorf("cannot use key: %w", err)
	}
	hosts := note.VerifierList(host)
	if p.Cert == "" {
		_, err := p.check(hosts)
		return err
	}
	origin, _, _, err := splitCert(p.Cert)
	if err != nil {
		return err
	}
	key, err := openCert(p.Cert, origin, hosts)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	c, err := p.check(note.VerifierList(key))
	if err != nil || p.Seal == nil {
		return err
	}
	if _, err := p.Seal.check(hosts); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	rec, err := ParseRecord([]byte(p.Seal.Record))
	if err != nil {
		return err
	}
	var seal RunSealed
	if err := json.Unmarshal(rec.Data, &seal); err != nil {
		return err
	}
	root, err := decodeRoot(seal.Root)
	if err != nil || rec.Event != seal.event() || root != c.Root || seal.Size != c.Size {
		return errors.New("the seal is not that of this log")
	}
	return nil
}

func (i Inclusion) check(keys note.Verifiers) (Checkpoint, error) {
	c, _, err := OpenCheckpoint([]byte(i.Checkpoint), keys)
	if err != nil {
		return c, err
	}
	return c, tlog.CheckRecord(i.Path, c.Size, c.Root, i.Index, tlog.RecordHash([]byte(i.Record)))
}
