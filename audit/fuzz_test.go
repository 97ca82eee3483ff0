package audit

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// FuzzLog gives anything for a log to all that reads one.
func FuzzLog(f *testing.F) {
	p := newPlace(f)
	id := p.sample(f, 1)[0]
	b, err := os.ReadFile(p.run(id))
	must(f, err)
	f.Add(b)
	host, err := os.ReadFile(p.host())
	must(f, err)
	f.Add(host)
	f.Add([]byte("r 00000002 00000000 {}\nc 00000001 00000000 x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b), 0)
		var out []byte
		for {
			fr, err := r.next()
			if err != nil {
				break
			}
			if fr.sound {
				out = appendFrame(out, fr.kind, fr.payload)
			} else {
				out = nil
				break
			}
		}
		if out != nil && !bytes.HasPrefix(b, out) {
			t.Fatalf("%q is read as %q", b, out)
		}
		_, _ = lastCheckpoint(bytes.NewReader(b), int64(len(b)), ParseCheckpoint)
		c := check{name: "x", see: func(Record) (Reason, error) { return "", nil }, known: note.VerifierList()}
		must(t, c.run(bytes.NewReader(b), int64(len(b)), finished))
		if c.problem == nil {
			t.Fatalf("%q verifies without a key", b)
		}
	})
}

// FuzzVerify puts anything in the place of a run's log and of the host log.
func FuzzVerify(f *testing.F) {
	p := newPlace(f)
	id := p.sample(f, 1)[0]
	run, err := os.ReadFile(p.run(id))
	must(f, err)
	host, err := os.ReadFile(p.host())
	must(f, err)
	f.Add(run, host)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dir := filepath.Join(t.TempDir(), "d")
		q := place{dir, p.key}
		must(t, os.MkdirAll(filepath.Dir(q.run(id)), 0o700))
		must(t, os.WriteFile(q.run(id), a, 0o600))
		must(t, os.WriteFile(q.host(), b, 0o600))
		r, err := Verify(dir, VerifyOptions{Keys: []string{p.key.VerifierKey()}})
		must(t, err)
		same := bytes.Equal(a, run) && bytes.Equal(b, host)
		if len(r.Problems) == 0 && !same && bytes.HasPrefix(b, host) {
			t.Fatalf("what was changed verifies: %q %q", a, b)
		}
		if reader, err := OpenReader(dir, id); err == nil {
			for i := 0; i < 1000; i++ {
				if _, err := reader.Next(); err == io.EOF || err != nil {
					break
				}
			}
			reader.Close()
		}
	})
}

// FuzzNote gives anything for a checkpoint, a certificate and a key file.
func FuzzNote(f *testing.F) {
	k, err := newKey("isolate-host-0")
	must(f, err)
	c := Checkpoint{Origin: "isolate.audit/0", Size: 3}
	msg, err := note.Sign(&note.Note{Text: c.text()}, k)
	must(f, err)
	f.Add(msg)
	cert, err := certify(k, k)
	must(f, err)
	f.Add([]byte(cert))
	f.Add([]byte(keyIntro + "x\nAAAA\n00\n"))
	v, err := newVerifier(k.VerifierKey())
	must(f, err)
	known := note.VerifierList(v)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseCheckpoint(b)
		if err == nil && !bytes.HasPrefix(b, []byte(got.text())) {
			t.Fatalf("%q is read as %v", b, got)
		}
		if signed, _, err := OpenCheckpoint(b, known); err == nil && signed != c {
			t.Fatalf("%q is believed", b)
		}
		if key, err := openCert(string(b), k.Name(), known); err == nil && keyText(key) != k.VerifierKey() {
			t.Fatalf("%q is believed", b)
		}
		_, _ = parseKey(b)
	})
}

// FuzzEnvelope: nothing that was not signed is believed, whatever it is.
func FuzzEnvelope(f *testing.F) {
	key, err := newKey("fuzz")
	if err != nil {
		f.Fatal(err)
	}
	v, err := note.NewVerifier(key.VerifierKey())
	if err != nil {
		f.Fatal(err)
	}
	good, err := sealEnvelope(payloadInToto, []byte(`{"a":1}`), key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"payloadType":"x","payload":"","signatures":[{}]}`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		payload, err := openEnvelope(msg, payloadInToto, []note.Verifier{v})
		if err == nil && string(payload) != `{"a":1}` {
			t.Errorf("%q is believed", payload)
		}
	})
}
