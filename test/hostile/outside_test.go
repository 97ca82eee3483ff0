package hostile

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isolate-run/isolate/internal/testenv"
)

// host is what listens outside of the sandboxes. A connection to it is an
// escape.
type host struct {
	port     int    // TCP and UDP, on every address
	abstract string // name of an abstract Unix socket, without the NUL
	path     string // of a Unix socket
	reached  atomic.Int64
	open     []io.Closer
}

// outside is started before the first test.
var outside host

func (h *host) listen() error {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	h.port = l.Addr().(*net.TCPAddr).Port
	h.abstract = fmt.Sprintf("isolate-hostile-%d", os.Getpid())
	h.path = filepath.Join(buildDir, "host.socket")
	h.serve(l)
	for _, a := range []struct{ network, address string }{
		{"tcp", ":80"}, {"unix", "@" + h.abstract}, {"unix", h.path},
	} {
		l, err := net.Listen(a.network, a.address)
		if err != nil {
			return err
		}
		h.serve(l)
	}
	return h.udp()
}

// serve answers every connection and counts it.
func (h *host) serve(l net.Listener) {
	h.open = append(h.open, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.reached.Add(1)
			c.SetDeadline(time.Now().Add(patience))
			io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nreached\n")
			c.Close()
		}
	}()
}

func (h *host) udp() error {
	c, err := net.ListenPacket("udp", net.JoinHostPort("", strconv.Itoa(h.port)))
	if err != nil {
		return err
	}
	h.open = append(h.open, c)
	go func() {
		var b [64]byte
		for {
			if _, _, err := c.ReadFrom(b[:]); err != nil {
				return
			}
			h.reached.Add(1)
		}
	}()
	return nil
}

func (h *host) close() {
	for _, c := range h.open {
		c.Close()
	}
}

// unreached fails the test if anything came in since it was called.
func (h *host) unreached(t *testing.T) {
	t.Helper()
	before := h.reached.Load()
	t.Cleanup(func() {
		if n := h.reached.Load() - before; n != 0 {
			t.Errorf("the host was reached %d times", n)
		}
	})
}

// Without listeners that can be reached the other tests would show nothing.
func TestTheOutsideCanBeReached(t *testing.T) {
	testenv.Require(t, testenv.UserNS) // else there is no outside
	port := strconv.Itoa(outside.port)
	targets := [][2]string{
		{"tcp", "127.0.0.1:" + port}, {"udp", "192.0.2.1:" + port}, {"tcp", "169.254.169.254:80"},
		{"unix", "@" + outside.abstract}, {"unix", outside.path},
	}
	for _, a := range outsideAddresses {
		targets = append(targets, [2]string{"tcp", a + ":" + port})
	}
	if c, err := net.Dial("udp6", "["+outside6+"]:9"); err == nil { // this host has IPv6
		c.Close()
		targets = append(targets, [2]string{"tcp", "[" + outside6 + "]:" + port}, [2]string{"tcp", "[::1]:" + port})
	}
	for _, a := range targets {
		before := outside.reached.Load()
		c, err := net.Dial(a[0], a[1])
		if err != nil {
			t.Error(err)
			continue
		}
		io.WriteString(c, "hello")
		for wait := time.Now().Add(patience); outside.reached.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(wait) {
				t.Errorf("%v was not noticed", a)
				break
			}
		}
		c.Close()
	}
}
