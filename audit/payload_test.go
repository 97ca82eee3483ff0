package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func TestPayloadKeepsADigest(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	a, b := l.Payload([]byte(`{"pin":"1234"}`)), l.Payload([]byte(`{"pin":"1234"}`))
	if a.Digest == b.Digest || a.Text != "" || a.Size != 14 {
		t.Errorf("payloads are %+v and %+v", a, b)
	}
	salt, err := l.Salt(*a)
	must(t, err)
	sum := sha256.Sum256(append(salt, `{"pin":"1234"}`...))
	if a.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Error("who is given the salt cannot check the digest")
	}
	plain := sha256.Sum256([]byte(`{"pin":"1234"}`))
	if strings.Contains(a.Digest, hex.EncodeToString(plain[:])) {
		t.Error("the digest is not salted")
	}
}

func TestPayloadTextIsRedactedAndCut(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{Payload: PayloadText, MaxPayload: 120, Redact: []string{"IBAN"}})
	for in, want := range map[string]string{
		`{"city":"Ulm","n":12345678901234567890}`:                            `{"city":"Ulm","n":12345678901234567890}`,
		`{"auth":{"API_Key":"s3cret"},"list":[{"password":"s3cret"}]}`:       `{"auth":{"API_Key":"[redacted]"},"list":[{"password":"[redacted]"}]}`,
		`{"to":{"iban":["s3cret"]},"Authorization":{"x":"s3cret"},"a":null}`: `{"Authorization":"[redacted]","a":null,"to":{"iban":"[redacted]"}}`,
		`password=s3cret`:     "",
		`{"a":1} {"b":s3cret`: "",
	} {
		if got := l.Payload([]byte(in)); got.Text != want || got.Cut != (want == "") {
			t.Errorf("%s is kept as %+v", in, got)
		}
	}
	long := l.Payload([]byte(`{"a":"` + strings.Repeat("é", 200) + `"}`))
	if len(long.Text) > 120 || !long.Cut || strings.ContainsRune(long.Text, '\uFFFD') || long.Size != 408 {
		t.Errorf("a long payload is kept as %+v", long)
	}
}
