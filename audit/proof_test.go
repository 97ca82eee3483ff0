package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/isolate-run/isolate/internal/testenv"
)

func raw(path []tlog.Hash) [][]byte {
	var out [][]byte
	for _, h := range path {
		out = append(out, h[:])
	}
	return out
}

// Our trees are those of two other implementations, for all sizes up to 130.
func TestTreeAgainstOthers(t *testing.T) {
	var tr tree
	var all stored
	roots := []tlog.Hash{tr.root()}
	h := rfc6962.DefaultHasher
	if string(h.EmptyRoot()) != string(roots[0][:]) {
		t.Error("the empty tree has another root")
	}
	var leaves []tlog.Hash
	for n := range int64(130) {
		leaf := tlog.RecordHash(fmt.Appendf(nil, "leaf %d", n))
		if string(h.HashLeaf(fmt.Appendf(nil, "leaf %d", n))) != string(leaf[:]) {
			t.Fatal("a leaf has another hash")
		}
		want, err := tlog.StoredHashesForRecordHash(n, leaf, all)
		must(t, err)
		before := len(all)
		tr.grow(leaf, func(h tlog.Hash) { all = append(all, h) })
		if fmt.Sprint(want) != fmt.Sprint([]tlog.Hash(all[before:])) {
			t.Fatalf("record %d stores other hashes", n)
		}
		root, err := tlog.TreeHash(n+1, all)
		must(t, err)
		again, read, err := treeFrom(n+1, all)
		if tr.root() != root || read != root || err != nil || again.root() != root {
			t.Fatalf("the tree of %d records has another root", n+1)
		}
		leaves, roots = append(leaves, leaf), append(roots, root)
	}
	size := int64(len(leaves))
	for i, leaf := range leaves {
		path, err := tlog.ProveRecord(size, int64(i), all)
		must(t, err)
		must(t, proof.VerifyInclusion(h, uint64(i), uint64(size), leaf[:], raw(path), roots[size][:]))
		path2, err := tlog.ProveTree(size, int64(i)+1, all)
		must(t, err)
		must(t, proof.VerifyConsistency(h, uint64(i)+1, uint64(size), raw(path2), roots[i+1][:], roots[size][:]))
	}
}

// A third party checks a proof with other people's code only.
func TestProofsAgainstOthers(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	sampleRun(t, l)
	early := l.Checkpoint()
	id := sampleRun(t, l).Run
	must(t, l.Close())
	h := rfc6962.DefaultHasher
	open := func(msg, key string) Checkpoint {
		v, err := note.NewVerifier(key)
		must(t, err)
		c, _, err := OpenCheckpoint([]byte(msg), note.VerifierList(v))
		must(t, err)
		return c
	}
	for seq := range int64(10) {
		pr, err := Prove(p.dir, id, seq)
		must(t, err)
		b, err := json.Marshal(pr)
		must(t, err)
		var read Proof
		must(t, json.Unmarshal(b, &read))
		must(t, read.Check(p.key.VerifierKey()))
		c := open(read.Checkpoint, read.Key)
		leaf := h.HashLeaf([]byte(read.Record))
		must(t, proof.VerifyInclusion(h, uint64(read.Index), uint64(c.Size), leaf, raw(read.Path), c.Root[:]))
		s := open(read.Seal.Checkpoint, read.HostKey)
		must(t, proof.VerifyInclusion(h, uint64(read.Seal.Index), uint64(s.Size), h.HashLeaf([]byte(read.Seal.Record)), raw(read.Seal.Path), s.Root[:]))

		for _, change := range []func(*Proof){
			func(x *Proof) { x.Record = strings.Replace(x.Record, "20", "21", 1) },
			func(x *Proof) { x.Index++ },
			func(x *Proof) { x.Path = x.Path[1:] },
			func(x *Proof) { x.Checkpoint = early2(early) },
			func(x *Proof) { x.Seal.Record = strings.Replace(x.Seal.Record, "end", "End", 1) },
			func(x *Proof) { x.Cert = strings.Replace(x.Cert, "isolate", "Isolate", 1) },
		} {
			must(t, json.Unmarshal(b, &read))
			change(&read)
			if read.Check(p.key.VerifierKey()) == nil {
				t.Errorf("a changed proof of record %d is believed", seq)
			}
		}
	}
	other, err := newKey("isolate-host-other")
	must(t, err)
	pr, err := Prove(p.dir, "", 2)
	must(t, err)
	must(t, pr.Check(p.key.VerifierKey()))
	if pr.Check(other.VerifierKey()) == nil {
		t.Error("a proof of another host is believed")
	}
	old, err := ParseCheckpoint(early)
	must(t, err)
	c, err := ProveConsistency(p.dir, "", old)
	must(t, err)
	now := open(c.Checkpoint, c.Key)
	must(t, proof.VerifyConsistency(h, uint64(c.OldSize), uint64(now.Size), raw(c.Path), c.OldRoot[:], now.Root[:]))
	old.Root[3] ^= 1
	if _, err := ProveConsistency(p.dir, "", old); err == nil {
		t.Error("a log is proved to continue one that it does not")
	}
	if _, err := Prove(p.dir, id, 10); err == nil {
		t.Error("a record that is not there is proved")
	}
}

func early2(msg []byte) string { return string(msg) }

// docs/audit.md has a program of twenty lines that checks a proof: hashes in
// Python, the signature with openssl.
func TestProofInPython(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Tool("openssl"))
	doc, err := os.ReadFile("../docs/audit.md")
	if os.IsNotExist(err) {
		t.Skip("needs the source tree")
	}
	must(t, err)
	_, rest, _ := strings.Cut(string(doc), "```python\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/audit.md has no program")
	}
	p := newPlace(t)
	id := p.sample(t, 1)[0]
	pr, err := Prove(p.dir, id, 4)
	must(t, err)
	dir := t.TempDir()
	check := func() (string, error) {
		b, err := json.Marshal(pr)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, "proof.json"), b, 0o600))
		cmd := exec.Command("python3", "-c", program, filepath.Join(dir, "proof.json"), p.key.VerifierKey())
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err != nil || !strings.Contains(out, "call.finished") {
		t.Errorf("the proof is not believed: %v\n%s", err, out)
	}
	pr.Record = strings.Replace(pr.Record, "weather", "feather", 1)
	if out, err := check(); err == nil {
		t.Errorf("a changed record is believed:\n%s", out)
	}
}
