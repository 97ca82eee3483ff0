package netd

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// errCarried ends a request whose body holds a placeholder that does not belong
// to its flow.
var errCarried = errors.New("a secret of another host is in the body")

// watchedBody passes a request's body on until a placeholder is whole in it,
// also if that comes in pieces. Nothing is held back to wait for the next piece,
// because both sides may be waiting for what there is: of a placeholder in
// pieces all but the last may have gone. It stands for a secret and is none.
//
// What the program has encoded in another way is not seen.
type watchedBody struct {
	io.ReadCloser
	marks   []string
	trailer http.Header // filled at the end of the body
	// found is called once, before the error is returned.
	found func()

	longest int
	tail    []byte // what was read last, one byte less than the longest mark
	seen    atomic.Bool
}

// watchBody has a request that goes out watched. The second value tells whether
// something was found, and so recorded by found; it is right as soon as the
// request has failed.
func (n *Network) watchBody(out *http.Request, own secrets, found func()) (seen func() bool) {
	marks := n.marksOfOthers(own)
	if len(marks) == 0 || out.Body == nil || out.Body == http.NoBody {
		return func() bool { return false }
	}
	b := &watchedBody{ReadCloser: out.Body, marks: marks, trailer: out.Trailer, found: found}
	for _, m := range marks {
		b.longest = max(b.longest, len(m))
	}
	out.Body = b
	return b.seen.Load
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.seen.Load() {
		return 0, errCarried
	}
	n, err := b.ReadCloser.Read(p)
	if b.holds(p[:n]) || err == io.EOF && inHeader(b.trailer, b.marks) {
		b.found()
		b.seen.Store(true)
		return 0, errCarried
	}
	return n, err
}

// holds tells whether a mark ends in what was read now.
func (b *watchedBody) holds(now []byte) bool {
	keep := b.longest - 1
	seam := append(b.tail, now[:min(len(now), keep)]...)
	for _, m := range b.marks {
		if bytes.Contains(now, []byte(m)) || bytes.Contains(seam, []byte(m)) {
			return true
		}
	}
	if len(now) >= keep {
		b.tail = append(b.tail[:0], now[len(now)-keep:]...)
	} else {
		b.tail = append(b.tail[:0], seam[max(0, len(seam)-keep):]...)
	}
	return false
}
