package netd

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// maxHead bounds the head of a request, in bytes.
const maxHead = 64 << 10

// head is what of a request's head decides how it is read, before anything else
// reads it: programs differ in what they make of the rest.
type head struct {
	target string // as sent
	host   string // of the Host header; "" only of a CONNECT that has none
	// absolute is whether the target is a URL, as clients of a proxy send it.
	absolute bool
}

var (
	errHead   = errors.New("malformed head")
	errFrames = errors.New("head that can be read in two ways")
)

// nextHead waits for a request, and looks at its head without taking it out of
// br, whose buffer has to hold it. bare is why it cannot be served.
func nextHead(c net.Conn, br *bufio.Reader, idle, patience time.Duration) (head, error) {
	_ = c.SetReadDeadline(time.Now().Add(idle))
	if _, err := br.Peek(1); err != nil {
		return head{}, err
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	defer c.SetReadDeadline(time.Time{})
	for n := 1; ; {
		if _, err := br.Peek(n); err != nil {
			return head{}, err
		}
		b, _ := br.Peek(br.Buffered())
		if len(b) > 0 {
			if end := bytes.Index(b, []byte("\r\n\r\n")); end >= 0 {
				return readHead(b[:end+2])
			}
			if bytes.Contains(b, []byte("\n\n")) {
				return head{}, errFrames
			}
		}
		if len(b) >= maxHead {
			return head{}, errHead
		}
		n = len(b) + 1
	}
}

// readHead looks at a head up to the last line's end. Lines end with CR and LF
// and have neither in them.
func readHead(b []byte) (head, error) {
	var h head
	lines := strings.Split(strings.TrimSuffix(string(b), "\r\n"), "\r\n")
	first := strings.Split(lines[0], " ")
	if len(first) != 3 || !strings.HasPrefix(first[2], "HTTP/1.") {
		return h, errHead
	}
	h.target = first[1]
	h.absolute = isURL(h.target)
	switch {
	case h.absolute, strings.HasPrefix(h.target, "/"), first[0] == http.MethodConnect:
	case h.target == "*" && first[0] == http.MethodOptions:
	default: // of RFC 9112, 3.2, no form: what a reader takes for the path is its own affair
		return h, errHead
	}
	hosts, lengths, encodings := 0, 0, 0
	for i, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") {
			return h, errFrames
		}
		if i == 0 {
			continue
		}
		name, value, found := strings.Cut(l, ":")
		if !found || name == "" || strings.ContainsAny(name, " \t") {
			return h, errFrames // folded lines, too
		}
		switch strings.ToLower(name) {
		case "host":
			hosts++
			h.host = strings.TrimSpace(value)
		case "content-length":
			lengths++
			if !digits(strings.TrimSpace(value)) {
				return h, errFrames
			}
		case "transfer-encoding":
			encodings++
			if !strings.EqualFold(strings.TrimSpace(value), "chunked") {
				return h, errFrames
			}
		}
	}
	switch {
	case lengths > 1 || encodings > 1 || lengths+encodings > 1:
		return h, errFrames
	case encodings > 0 && first[2] == "HTTP/1.0":
		return h, errFrames // some see a body, some do not (RFC 9112, 6.1)
	case hosts == 0 && first[0] == http.MethodConnect:
		return h, nil // of HTTP/1.0, as Python before 3.12 sends it
	case hosts != 1:
		return h, errHead
	}
	return h, nil
}

// isURL tells whether a target is a URL. One of https asks a proxy to fetch it,
// which then would go out in the clear.
func isURL(target string) bool {
	const scheme = "http://"
	return len(target) >= len(scheme) && strings.EqualFold(target[:len(scheme)], scheme)
}

// agrees tells whether the Host header of a CONNECT, if it has one, names its
// target.
func (h head) agrees() bool {
	host, port, err := net.SplitHostPort(h.target)
	if h.host == "" || err != nil {
		return h.host == ""
	}
	number, _ := strconv.ParseUint(port, 10, 16)
	target, err := egress.ParseHost(host)
	return err == nil && egress.SameAuthority(h.host, egress.Flow{Host: target, Port: uint16(number)})
}

func digits(s string) bool {
	if s == "" || len(s) > 18 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// path is the target's path as sent, and the host of an absolute one.
func (h head) path() (path, host string) {
	t := h.target
	if h.absolute {
		_, t, _ = strings.Cut(t, "://")
		i := strings.IndexAny(t, "/?#")
		if i < 0 {
			i = len(t)
		}
		host, t = t[:i], t[i:]
		if t == "" || t[0] != '/' {
			t = "/" + t
		}
	}
	t, _, _ = strings.Cut(t, "?")
	return t, host
}

// reasonOf is the reason for a head that cannot be served.
func reasonOf(err error) egress.Reason {
	if errors.Is(err, errFrames) {
		return egress.ReasonSmuggling
	}
	return egress.ReasonMalformed
}
