package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// TestPAE: the example of the DSSE specification, protocol.md.
func TestPAE(t *testing.T) {
	const want = "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
	if got := pae("http://example.com/HelloWorld", []byte("hello world")); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := pae("", nil); string(got) != "DSSEv1 0  0 " {
		t.Errorf("of nothing: %q", got)
	}
}

// attestedRun writes a run and its attestation.
func attestedRun(t *testing.T, p place) (run string, attestation []byte) {
	t.Helper()
	l := p.open(t, Options{})
	r, err := l.Run(RunStart{Plan: "sha256:aa", Filter: "sha256:bb", View: "sha256:cc"}, ProgramStart{Program: "./p"})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Append(
		FileCopied{Way: "in", Path: "p", SHA256: "01"}, SocketBlocked{Call: "connect", Family: "AF_INET", Address: "192.0.2.1", Port: 443, Errno: "ENETUNREACH"},
		ProgramEnd{Reason: "exit", StdoutSHA256: "02", StderrSHA256: "03"}, FileCopied{Way: "out", Path: "result", SHA256: "04"},
		BlockedCounts{Total: 1},
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Close(RunEnd{Reason: "exit", Blocked: 1})
	if err != nil {
		t.Fatal(err)
	}
	program := resource("/workspace/p", "01")
	b, err := l.Attest(s.Run, &program)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Run, b
}

func TestAttest(t *testing.T) {
	p := newPlace(t)
	run, b := attestedRun(t, p)
	var e Envelope
	var s Statement
	if err := json.Unmarshal(b, &e); err != nil || json.Unmarshal(e.Payload, &s) != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if s.Type != statementType || s.Predicate.MonitoredProcess.Event != run || !strings.HasPrefix(s.Predicate.MonitoredProcess.HostID, originStart) {
		t.Errorf("%+v", s)
	}
	subjects := map[string]string{}
	for _, r := range s.Subject {
		subjects[r.Name] = r.Digest["sha256"]
	}
	if len(subjects) != 3 || subjects["stdout"] != "02" || subjects["stderr"] != "03" || subjects["out/result"] != "04" {
		t.Errorf("subjects: %v", subjects)
	}
	if n := s.Predicate.MonitorLog.Network; len(n) != 1 || n[0].IP != "192.0.2.1" || s.Predicate.Monitor.ConfigSource.Digest["sha256"] != "aa" {
		t.Errorf("%+v", s.Predicate)
	}
	// the signature is one over the specification's bytes, by the host key
	v, err := note.NewVerifier(p.key.VerifierKey())
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil || !v.Verify(pae(payloadInToto, e.Payload), sig) {
		t.Errorf("the signature is not one: %v", err)
	}
	if _, err := p.open(t, Options{}).Attest("20260101-000000.000000-00000000", nil); err == nil {
		t.Error("a run that is not there was attested")
	}
}

// TestVerifyAttestation: every change is found, with its reason.
func TestVerifyAttestation(t *testing.T) {
	p := newPlace(t)
	run, good := attestedRun(t, p)
	verify := func(msg []byte) Report {
		t.Helper()
		r, err := Verify(p.dir, VerifyOptions{Keys: []string{p.key.VerifierKey()}, Attestations: [][]byte{msg}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(good); len(r.Problems) > 0 || r.Attested != 1 {
		t.Fatalf("%v, %d attested", r.Problems, r.Attested)
	}
	var e Envelope
	if err := json.Unmarshal(good, &e); err != nil {
		t.Fatal(err)
	}
	seal := func(key Signer, from, to string) []byte {
		payload := bytes.Replace(e.Payload, []byte(from), []byte(to), 1)
		if from != "" && bytes.Equal(payload, e.Payload) {
			t.Fatalf("there is no %q in it", from)
		}
		b, err := sealEnvelope(payloadInToto, payload, key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stranger, err := newKey("stranger")
	if err != nil {
		t.Fatal(err)
	}
	changed := e
	changed.Payload = bytes.Replace(e.Payload, []byte(`"192.0.2.1"`), []byte(`"192.0.2.2"`), 1)
	unsigned, _ := json.Marshal(changed)
	for name, c := range map[string]struct {
		msg  []byte
		want Reason
	}{
		"no envelope":              {[]byte("{}"), Damaged},
		"garbage":                  {[]byte("x"), Damaged},
		"changed behind the key":   {unsigned, BadSignature},
		"signed by a stranger":     {seal(stranger, "", ""), UnknownKey},
		"a refused call less":      {seal(p.key, `"192.0.2.1"`, `"192.0.2.2"`), RootMismatch},
		"another output":           {seal(p.key, `"sha256":"02"`, `"sha256":"12"`), RootMismatch},
		"another run":              {seal(p.key, `"event":"`+run, `"event":"20260101-000000.000000-00000000`), MissingRun},
		"no id of a run":           {seal(p.key, `"event":"`+run, `"event":"../host`), Damaged},
		"a field that is not ours": {seal(p.key, `{"_type"`, `{"x":1,"_type"`), RootMismatch},
	} {
		if r := verify(c.msg); len(r.Problems) != 1 || r.Problems[0].Reason != c.want || r.Attested != 0 {
			t.Errorf("%s: %v, want %s", name, r.Problems, c.want)
		}
	}
	// the log was set back behind the attestation's back
	q := newPlace(t)
	q.key = p.key
	if err := os.CopyFS(q.dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	host, err := os.ReadFile(filepath.Join(q.dir, hostLog))
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Index(host, []byte("\nr ")) // what is behind the first record and its checkpoint
	if err := os.WriteFile(filepath.Join(q.dir, hostLog), host[:first+1], 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(q.dir, VerifyOptions{Keys: []string{p.key.VerifierKey()}, Attestations: [][]byte{good}})
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Problems[len(r.Problems)-1]; last.Reason != RolledBack {
		t.Errorf("set back: %v", r.Problems)
	}
}
