package prove

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// listeners are what the program tries to reach: on the host's loopback and in
// its abstract names. They say back what they are told, and remember it.
type listeners struct {
	secret string
	closed []io.Closer
	serve  sync.WaitGroup

	mu   sync.Mutex
	seen map[string]bool // tokens

	// attempts are those on the listeners; absent are the names of those that
	// this machine cannot have, with the reason.
	attempts []attempt
	absent   map[string]string
}

// place is where the program is.
type place string

const (
	outside place = "outside"
	inside  place = "inside"
)

// token is what is said in an attempt from a place.
func (l *listeners) token(p place, name string) string {
	return l.secret + " " + string(p) + " " + name
}

// reached says whether a listener has heard an attempt from a place.
func (l *listeners) reached(p place, name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[l.token(p, name)]
}

// listen opens the listeners.
func listen() (*listeners, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	l := &listeners{secret: hex.EncodeToString(b), seen: map[string]bool{}, absent: map[string]string{}}
	refused := expected{[]string{"ECONNREFUSED"}, nothing}
	// without IPv6 on its loopback a sandbox has no such address at all
	refused6 := expected{[]string{"ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH"}, nothing}
	for _, s := range []struct {
		name, network, address string
		a                      attempt
	}{
		{"the host's TCP", "tcp4", "127.0.0.1:0", attempt{Deed: connectTo, Family: unix.AF_INET, Type: unix.SOCK_STREAM, expected: refused}},
		{"the host's TCP, IPv6", "tcp6", "[::1]:0", attempt{Deed: connectTo, Family: unix.AF_INET6, Type: unix.SOCK_STREAM, expected: refused6}},
		{"the host's UDP", "udp4", "127.0.0.1:0", attempt{Deed: exchange, Family: unix.AF_INET, Type: unix.SOCK_DGRAM, expected: refused}},
		{"the host's UDP, IPv6", "udp6", "[::1]:0", attempt{Deed: exchange, Family: unix.AF_INET6, Type: unix.SOCK_DGRAM, expected: refused6}},
		{"the host's abstract socket", "unix", "@isolate-prove-" + l.secret, attempt{Deed: connectTo, Family: unix.AF_UNIX, Type: unix.SOCK_STREAM, expected: refused}},
	} {
		to, err := l.open(s.network, s.address)
		if err != nil && s.a.Family == unix.AF_INET6 && noIPv6(err) {
			l.absent[s.name] = "this machine has no IPv6"
		} else if err != nil {
			l.close()
			return nil, fmt.Errorf("cannot listen for attempts: %w", err)
		}
		s.a.Name, s.a.To = s.name, to
		l.attempts = append(l.attempts, s.a)
	}
	return l, nil
}

func noIPv6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// open listens and gives the address.
func (l *listeners) open(network, address string) (string, error) {
	if strings.HasPrefix(network, "udp") {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return "", err
		}
		l.closed = append(l.closed, c)
		l.serve.Go(func() { l.packets(c) })
		return c.LocalAddr().String(), nil
	}
	s, err := net.Listen(network, address)
	if err != nil {
		return "", err
	}
	l.closed = append(l.closed, s)
	l.serve.Go(func() { l.streams(s) })
	return s.Addr().String(), nil
}

// maxHeard bounds what is listened to: anybody on this host may talk to it.
const maxHeard = 256

func (l *listeners) streams(s net.Listener) {
	for {
		c, err := s.Accept()
		if err != nil {
			return // closed
		}
		l.serve.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			b := make([]byte, maxHeard)
			n, err := c.Read(b)
			if err == nil && l.heard(b[:n]) {
				_, _ = c.Write(b[:n])
			}
		})
	}
}

func (l *listeners) packets(c net.PacketConn) {
	b := make([]byte, maxHeard)
	for {
		n, from, err := c.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && l.heard(b[:n]) {
			_, _ = c.WriteTo(b[:n], from)
		}
	}
}

// heard remembers a token of ours.
func (l *listeners) heard(b []byte) bool {
	if !strings.HasPrefix(string(b), l.secret+" ") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[string(b)] = true
	return true
}

func (l *listeners) close() {
	for _, c := range l.closed {
		c.Close()
	}
	l.serve.Wait()
}

// from are the attempts on the listeners as they are made at a place.
func (l *listeners) from(p place) []attempt {
	var list []attempt
	for _, a := range l.attempts {
		if l.absent[a.Name] == "" {
			a.Token = l.token(p, a.Name)
			list = append(list, a)
		}
	}
	return list
}
