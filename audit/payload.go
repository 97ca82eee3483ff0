package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Payload is what stands in a record for bytes that may be secret: arguments.
// Log.Payload makes one.
type Payload struct {
	Digest string `json:"digest" doc:"salted SHA-256 of the bytes"`
	Nonce  string `json:"nonce" doc:"what the salt is made of, with the host's secret"`
	Size   int64  `json:"size" doc:"bytes"`
	Text   string `json:"text,omitempty" doc:"the bytes, redacted; stored on request only"`
	Cut    bool   `json:"cut,omitempty" doc:"true: the text is longer than what is stored"`
}

// PayloadMode says what a Payload keeps.
type PayloadMode int

// The zero value keeps least.
const (
	PayloadDigest PayloadMode = iota // digest and size
	PayloadText                      // the JSON too, redacted and cut
)

// Defaults of Options.
const (
	// DefaultMaxPayload is how many bytes of a payload's text are kept.
	DefaultMaxPayload = 4 << 10
	// maxPayload keeps the largest record below maxFrame, escapes included.
	maxPayload = 32 << 10
)

// DefaultRedact are parts of names of JSON fields whose values are not kept,
// in addition to Options.Redact.
var DefaultRedact = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "accesskey", "access_key",
	"authorization", "cookie", "credential", "privatekey", "private_key", "session",
}

const redacted = "[redacted]"

type payloads struct {
	secret []byte
	mode   PayloadMode
	limit  int
	redact []string
}

// Payload makes what stands for b in a record. The text is kept only if the
// log was opened with PayloadText, and b is JSON: in anything else, secrets
// could not be found.
func (l *Log) Payload(b []byte) *Payload {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	p := &Payload{Nonce: hex.EncodeToString(nonce), Size: int64(len(b))}
	sum := sha256.Sum256(append(l.payloads.salt(nonce), b...))
	p.Digest = "sha256:" + hex.EncodeToString(sum[:])
	if l.payloads.mode == PayloadText {
		p.Text, p.Cut = l.payloads.text(b)
	}
	return p
}

// Salt is what the digest of a payload begins with: who is given it can check
// what the payload stands for, and learns nothing of any other.
func (l *Log) Salt(p Payload) ([]byte, error) {
	nonce, err := hex.DecodeString(p.Nonce)
	if err != nil {
		return nil, err
	}
	return l.payloads.salt(nonce), nil
}

func (p *payloads) salt(nonce []byte) []byte {
	m := hmac.New(sha256.New, p.secret)
	m.Write(nonce)
	return m.Sum(nil)
}

func (p *payloads) text(b []byte) (text string, cut bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return "", true
	}
	out, err := json.Marshal(p.clean(v))
	if err != nil {
		return "", true
	}
	text = string(out)
	if len(text) <= p.limit {
		return text, false
	}
	n := p.limit
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n], true
}

func (p *payloads) clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if p.secretName(k) {
				v[k] = redacted
			} else {
				v[k] = p.clean(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = p.clean(e)
		}
	}
	return v
}

func (p *payloads) secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(p.redact, func(part string) bool { return strings.Contains(name, part) })
}
