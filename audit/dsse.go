package audit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/note"
)

// Envelope is a DSSE envelope, version 1: a payload with signatures of its type
// and bytes. The signed form is simple enough to be here: the library for it
// would link SSH into the command.
type Envelope struct {
	PayloadType string              `json:"payloadType"`
	Payload     []byte              `json:"payload"` // base64 in JSON
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is one signature. KeyID is a hint: the name and hash of the
// key, as in checkpoints.
type EnvelopeSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"` // base64
}

// maxEnvelope bounds what is read of an envelope, in bytes.
const maxEnvelope = 8 << 20

// pae is DSSE's pre-authentication encoding: what is signed.
func pae(payloadType string, payload []byte) []byte {
	var b bytes.Buffer
	for _, part := range [][]byte{[]byte("DSSEv1"), []byte(payloadType), payload} {
		if b.Len() > 0 {
			b.WriteString(" " + strconv.Itoa(len(part)) + " ")
		}
		b.Write(part)
	}
	return b.Bytes()
}

// sealEnvelope signs a payload.
func sealEnvelope(payloadType string, payload []byte, key Signer) ([]byte, error) {
	sig, err := key.Sign(pae(payloadType, payload))
	if err != nil {
		return nil, fmt.Errorf("cannot sign: %w", err)
	}
	return json.Marshal(Envelope{payloadType, payload, []EnvelopeSignature{{keyID(key), base64.StdEncoding.EncodeToString(sig)}}})
}

var errNoEnvelope = errors.New("it is not a DSSE envelope")

// openEnvelope gives the payload if one of the keys has signed it. The error is
// errUnknownKey, errBadSignature, or errNoEnvelope.
func openEnvelope(msg []byte, payloadType string, keys []note.Verifier) ([]byte, error) {
	var e Envelope
	if len(msg) > maxEnvelope || json.Unmarshal(msg, &e) != nil || len(e.Signatures) == 0 || len(e.Signatures) > 100 {
		return nil, errNoEnvelope
	}
	if e.PayloadType != payloadType {
		return nil, fmt.Errorf("%w of type %q", errNoEnvelope, payloadType)
	}
	signed := pae(e.PayloadType, e.Payload)
	known := false
	for _, s := range e.Signatures {
		sig, err := base64.StdEncoding.DecodeString(s.Sig)
		if err != nil {
			continue
		}
		for _, k := range keys {
			if keyID(k) == s.KeyID {
				known = true
			}
			if k.Verify(signed, sig) {
				return e.Payload, nil
			}
		}
	}
	if known {
		return nil, errBadSignature
	}
	return nil, errUnknownKey
}
