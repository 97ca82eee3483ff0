package netd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// What SOCKS5 says on the wire (RFC 1928).
const (
	socksVersion = 5
	socksConnect = 1 // the only command there is here

	socksNoAuth   = 0
	socksNoMethod = 0xff

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksGranted     = 0
	socksNotAllowed  = 2
	socksUnreachable = 4
	socksNoCommand   = 7
	socksNoAddress   = 8
)

// socksReply is an answer. The address in it, of a listener of our own, is
// nobody's business.
func socksReply(code byte) []byte {
	return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
}

// socks serves one connection to the SOCKS proxy of the gateway, as the HTTP
// proxy is served: another way in, not another decision.
func (n *Network) socks(c *inside) {
	br := bufio.NewReader(c)
	refuse := func(code byte) {
		_, _ = c.Write(socksReply(code))
		linger(c)
	}
	malformed := func(e egress.Event, r egress.Reason, code byte) {
		e.Type, e.Via, e.Proto, e.Reason = egress.EventDeny, egress.ViaSOCKS, "tcp", r
		n.events.deny(e)
		if code != socksGranted {
			refuse(code)
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(n.times.Hello))
	method, err := socksMethod(br)
	if err != nil {
		malformed(egress.Event{}, egress.ReasonMalformed, socksGranted)
		return
	}
	if _, err := c.Write([]byte{socksVersion, method}); err != nil || method != socksNoAuth {
		return
	}
	host, port, code, err := socksRequest(br)
	if err != nil {
		malformed(egress.Event{}, egress.ReasonMalformed, code)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	fl, err := n.asked(egress.ViaSOCKS, host, port)
	if err != nil {
		malformed(egress.Event{Host: host, Port: port}, egress.ReasonNameInvalid, socksNotAllowed)
		return
	}
	fl.through(&buffered{c, br}, socksReply(socksGranted), func(d egress.Decision) {
		code := byte(socksNotAllowed)
		if d.Reason == egress.ReasonDialFailed || d.Reason == egress.ReasonUnresolved {
			code = socksUnreachable
		}
		refuse(code)
	})
}

// socksMethod reads a greeting and chooses of what it offers.
func socksMethod(r io.Reader) (byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	if head[0] != socksVersion {
		return 0, errors.New("another version")
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return 0, err
	}
	if slices.Contains(methods, socksNoAuth) {
		return socksNoAuth, nil
	}
	return socksNoMethod, nil
}

// socksRequest reads a request. An error comes with the code to answer with;
// socksGranted is for what is worth no answer.
func socksRequest(r io.Reader) (host string, port uint16, code byte, err error) {
	var head [5]byte // up to the length of a name, or the first byte of an address
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", 0, socksGranted, err
	}
	size := 0
	switch head[3] {
	case socksIPv4:
		size = 3
	case socksIPv6:
		size = 15
	case socksName:
		size = int(head[4])
	}
	rest := make([]byte, size+2)
	switch {
	case head[0] != socksVersion || head[2] != 0:
		return "", 0, socksGranted, errors.New("no request")
	case head[1] != socksConnect:
		return "", 0, socksNoCommand, errors.New("another command")
	case size == 0:
		return "", 0, socksNoAddress, errors.New("another kind of address")
	}
	if _, err := io.ReadFull(r, rest); err != nil {
		return "", 0, socksGranted, err
	}
	port = binary.BigEndian.Uint16(rest[size:])
	if head[3] == socksName {
		return string(rest[:size]), port, 0, nil
	}
	a, _ := netip.AddrFromSlice(append(head[4:5:5], rest[:size]...))
	return a.String(), port, 0, nil
}
