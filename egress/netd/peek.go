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
	case b == recordHandshake:
		seen := hello(r)
		if seen.Kind != egress.SeenOther {
			return r.read.Bytes(), seen
		}
		if plain := withoutDot(r.read.Bytes()); plain != nil {
			if seen = hello(&recorder{from: bytes.NewReader(plain)}); seen.Kind == egress.SeenTLS {
				seen.Server += "."
			}
		}
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

// Numbers of TLS (RFC 8446, 4 and 5.1; RFC 6066, 3).
const (
	recordHandshake  = 0x16
	recordHead       = 5
	recordMost       = 1 << 14
	handshakeHello   = 1
	handshakeHead    = 4
	extensionName    = 0
	nameOfHost       = 0
	versionAndRandom = 2 + 32
)

// withoutDot is a ClientHello whose server name ends with a dot, without that
// dot; nil if it is none. RFC 6066 forbids the dot and crypto/tls does not read
// such a hello, but some clients send what they were given as a name. All that is
// judged of the hello, crypto/tls still judges: here only the name is found.
func withoutDot(records []byte) []byte {
	hello := handshakeMessage(records)
	if hello == nil {
		return nil
	}
	at := handshakeHead + versionAndRandom
	for _, size := range []int{1, 2, 1} { // session, cipher suites, compression methods
		at += size + number(hello, at, size)
	}
	extensions := at
	end := at + 2 + number(hello, at, 2)
	for at += 2; at+4 <= min(end, len(hello)); at += 4 + number(hello, at+2, 2) {
		if number(hello, at, 2) == extensionName {
			break
		}
	}
	// the extension has a list of one name: its kind and its text
	size := number(hello, at+2, 2)
	dot := at + 4 + size - 1
	if number(hello, at, 2) != extensionName || size < 7 || dot >= min(end, len(hello)) || hello[dot] != '.' ||
		number(hello, at+4, 2) != size-2 || hello[at+6] != nameOfHost || number(hello, at+7, 2) != size-5 {
		return nil
	}
	for _, place := range []int{extensions, at + 2, at + 4, at + 7} { // sizes that the dot counts in
		less := number(hello, place, 2) - 1
		hello[place], hello[place+1] = byte(less>>8), byte(less)
	}
	hello = slices.Delete(hello, dot, dot+1)
	size = len(hello) - handshakeHead
	hello[1], hello[2], hello[3] = byte(size>>16), byte(size>>8), byte(size)
	var out []byte
	for part := range slices.Chunk(hello, recordMost) {
		out = append(out, recordHandshake, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// handshakeMessage puts the first message of the handshake together from records;
// nil if that is no whole ClientHello.
func handshakeMessage(records []byte) (m []byte) {
	for len(records) >= recordHead && records[0] == recordHandshake {
		size := number(records, 3, 2)
		if size > recordMost || len(records) < recordHead+size {
			return nil
		}
		m = append(m, records[recordHead:recordHead+size]...)
		records = records[recordHead+size:]
		if whole := handshakeHead + number(m, 1, 3); len(m) >= handshakeHead && len(m) >= whole {
			if m[0] != handshakeHello {
				return nil
			}
			return m[:whole]
		}
	}
	return nil
}

// number is the number of so many bytes at a place, or 0 where there are none.
func number(b []byte, at, size int) (n int) {
	if at < 0 || at+size > len(b) {
		return 0
	}
	for _, part := range b[at : at+size] {
		n = n<<8 | int(part)
	}
	return n
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
