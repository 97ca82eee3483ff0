package netd

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// maxPeek bounds the first bytes that are read before a flow is judged: a hello
// with keys against quantum computers takes some 2 KiB, 64 KiB is the most that
// a handshake message may be split over.
const maxPeek = 64 << 10

// The extensions that hide the name: ECH (RFC 9849), the drafts of it, and ESNI
// before them.
const (
	encryptedHello      = 0xfe0d
	encryptedHelloDraft = 0xfe08 // the first of those up to encryptedHello
	encryptedName       = 0xffce
)

func hidesName(extension uint16) bool {
	return encryptedHelloDraft <= extension && extension <= encryptedHello || extension == encryptedName
}

// peek reads the first bytes of a connection and says what they are. It returns
// what it has read, to be read again.
func peek(c net.Conn, wait time.Duration) ([]byte, egress.Seen) {
	_ = c.SetReadDeadline(time.Now().Add(wait))
	defer c.SetReadDeadline(time.Time{})
	r := &recorder{from: c}
	var first [4096]byte
	n, err := r.Read(first[:])
	if err != nil || n == 0 {
		return nil, egress.Seen{Kind: egress.SeenSilent}
	}
	switch b := first[0]; {
	case b == 0x16:
		seen := hello(r)
		return r.read.Bytes(), seen
	case 'A' <= b && b <= 'Z' && !bytes.HasPrefix(first[:n], []byte("SSH-")):
		return r.read.Bytes(), egress.Seen{Kind: egress.SeenHTTP}
	}
	return r.read.Bytes(), egress.Seen{Kind: egress.SeenOther}
}

// recorder keeps what is read through it.
type recorder struct {
	from io.Reader
	read bytes.Buffer
}

var errTooLong = errors.New("the first message is too long")

func (r *recorder) Read(b []byte) (int, error) {
	if r.read.Len() >= maxPeek {
		return 0, errTooLong
	}
	n, err := r.from.Read(b[:min(len(b), maxPeek-r.read.Len())])
	r.read.Write(b[:n])
	return n, err
}

// errSeen ends the handshake when the hello has been read.
var errSeen = errors.New("seen")

// hello lets crypto/tls read a ClientHello, however it is split up, and stops
// there: nothing is written.
func hello(r *recorder) egress.Seen {
	seen := egress.Seen{Kind: egress.SeenOther}
	replay := io.MultiReader(bytes.NewReader(slices.Clone(r.read.Bytes())), r)
	s := tls.Server(silent{replay}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = egress.Seen{Kind: egress.SeenTLS, Server: h.ServerName, ALPN: slices.Clone(h.SupportedProtos),
				ECH: slices.ContainsFunc(h.Extensions, hidesName)}
			return nil, errSeen
		},
	})
	err := s.Handshake()
	var late interface{ Timeout() bool }
	if seen.Kind == egress.SeenOther && errors.As(err, &late) && late.Timeout() {
		seen.Kind = egress.SeenSilent
	}
	return seen
}

// silent is a connection that can only be read.
type silent struct{ io.Reader }

func (silent) Write(b []byte) (int, error)        { return len(b), nil }
func (silent) Close() error                       { return nil }
func (silent) LocalAddr() net.Addr                { return nil }
func (silent) RemoteAddr() net.Addr               { return nil }
func (silent) SetDeadline(t time.Time) error      { return nil }
func (silent) SetReadDeadline(t time.Time) error  { return nil }
func (silent) SetWriteDeadline(t time.Time) error { return nil }
