package net

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// measuringClient is what a measuring program does: "down ADDR SECONDS", "up ADDR
// SECONDS", "echo ADDR COUNT", "bare ADDR COUNT", which waits past Go's scheduler,
// "open ADDR COUNT", "hello ADDR COUNT", which opens with a TLS hello, "lookup NAME
// COUNT". It prints one number a line: bytes a second, or microseconds of the
// median and the 99th of a hundred. "whole ADDR MEBIBYTES" tells whether what is
// sent comes back, "many ADDR COUNT" how many connections work while all are open,
// "ask NAME COUNT" how many look-ups were answered, and how many a second.
func measuringClient(order string) error {
	var what, addr string
	var n int
	if _, err := fmt.Sscan(order, &what, &addr, &n); err != nil {
		return err
	}
	switch what {
	case "down", "up":
		return bulk(what, addr, time.Duration(n)*time.Second)
	case "echo":
		return echoes(addr, n)
	case "bare":
		return bareEchoes(addr, n)
	case "answer":
		return answer()
	case "whole":
		return whole(addr, int64(n)<<20)
	case "many":
		return many(addr, n)
	case "ask":
		return ask(addr, n)
	case "lookup":
		return measure(n, func() error { _, err := net.LookupIP(addr); return err })
	}
	first := []byte("ex")
	if what == "hello" {
		first = tlsHello("hello.example")
	}
	return opens(addr, first, n)
}

// tlsHello is what a program says first in TLS.
func tlsHello(name string) []byte {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		defer ours.Close()
		_ = tls.Client(ours, &tls.Config{ServerName: name}).Handshake()
	}()
	b := make([]byte, 64<<10)
	n, _ := theirs.Read(b)
	return b[:n]
}

func bulk(way, addr string, d time.Duration) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(way[:1])); err != nil {
		return err
	}
	b := make([]byte, 256<<10)
	began, total := time.Now(), 0
	for time.Since(began) < d {
		var n int
		if way == "down" {
			n, err = c.Read(b)
		} else {
			n, err = c.Write(b)
		}
		if total += n; err != nil {
			return err
		}
	}
	fmt.Println(int(float64(total) / time.Since(began).Seconds()))
	return nil
}

// dialEcho connects to a server that is to send back what it gets.
func dialEcho(addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte("e")); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func echoes(addr string, count int) error {
	c, err := dialEcho(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 1024)
	return measure(count, func() error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(c, b)
		return err
	})
}

// bareEchoes is echoes past Go's scheduler, whose way to sleep and back takes the
// longer the longer an answer takes: as a program in C would wait.
func bareEchoes(addr string, count int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("b")); err != nil {
		return err
	}
	fd, err := blocking(c)
	if err != nil {
		return err
	}
	b := make([]byte, 1024)
	return measure(count, func() error {
		if n, err := raw(unix.SYS_WRITE, fd, b); err != nil || n != len(b) {
			return fmt.Errorf("wrote %d: %v", n, err)
		}
		for left := b; len(left) > 0; {
			n, err := raw(unix.SYS_READ, fd, left)
			if err != nil || n == 0 {
				return fmt.Errorf("read %d: %v", n, err)
			}
			left = left[n:]
		}
		return nil
	})
}

// answer is the other side of bareEchoes, on descriptor 3.
func answer() error {
	b := make([]byte, 64<<10)
	for {
		n, err := raw(unix.SYS_READ, 3, b)
		if err != nil || n == 0 {
			return err
		}
		if _, err := raw(unix.SYS_WRITE, 3, b[:n]); err != nil {
			return err
		}
	}
}

// blocking is the descriptor of a connection, which waits from then on.
func blocking(c net.Conn) (int, error) {
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return -1, err
	}
	fd, err := unix.Dup(int(f.Fd()))
	f.Close()
	if err != nil {
		return -1, err
	}
	return fd, unix.SetNonblock(fd, false)
}

// raw reads or writes without the scheduler's knowing.
func raw(call, fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(uintptr(call), uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// whole sends random bytes to a server that sends them back.
func whole(addr string, size int64) error {
	c, err := dialEcho(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	sent, got := sha256.New(), sha256.New()
	go func() {
		_, _ = io.CopyN(io.MultiWriter(c, sent), rand.NewChaCha8([32]byte{}), size)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	n, err := io.Copy(got, c)
	if err != nil {
		return err
	}
	if n != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		return fmt.Errorf("%d of %d bytes came back, or others", n, size)
	}
	fmt.Println("whole")
	return nil
}

// many opens connections, and uses each when all are open.
func many(addr string, count int) error {
	var all []net.Conn
	for range count {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return fmt.Errorf("after %d: %w", len(all), err)
		}
		defer c.Close()
		all = append(all, c)
	}
	for i, c := range all {
		if _, err := c.Write([]byte("ex")); err != nil {
			return fmt.Errorf("number %d: %w", i, err)
		}
	}
	for i, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return fmt.Errorf("number %d: %w", i, err)
		}
	}
	fmt.Println(len(all))
	return nil
}

// ask asks the resolver from one socket, 5,000 times a second or as fast as it
// answers, with at most 32 questions open.
func ask(name string, count int) error {
	c, err := net.Dial("udp", "198.18.0.1:53")
	if err != nil {
		return err
	}
	defer c.Close()
	var q dns.Msg
	q.SetQuestion(dns.Fqdn(name), dns.TypeA)
	packed, err := q.Pack()
	if err != nil {
		return err
	}
	open := make(chan struct{}, 32)
	go func() {
		for began, i := time.Now(), 0; i < count; i++ {
			open <- struct{}{}
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / 5000)))
			if _, err := c.Write(packed); err != nil {
				return
			}
		}
	}()
	began, b := time.Now(), make([]byte, 1500)
	for i := range count {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(b); err != nil {
			return fmt.Errorf("after %d answers: %w", i, err)
		}
		<-open
	}
	fmt.Println(count, int(float64(count)/time.Since(began).Seconds()))
	return nil
}

// opens looks the address up once.
// opens opens connections, and waits for an answer to what it says first.
func opens(addr string, first []byte, count int) error {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	addr = to.String()
	return measure(count, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write(first); err != nil {
			return err
		}
		_, err = io.ReadFull(c, make([]byte, 1))
		return err
	})
}

func measure(count int, f func() error) error {
	var times []time.Duration
	for range count {
		began := time.Now()
		if err := f(); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	fmt.Println(times[count/2].Microseconds())
	fmt.Println(times[count*99/100].Microseconds())
	return nil
}

// runOrder runs the order of the environment, if there is one.
func runOrder() (int, bool) {
	order := os.Getenv("ISOLATE_NETCLIENT")
	if order == "" {
		return 0, false
	}
	if err := measuringClient(strings.TrimSpace(order)); err != nil {
		fmt.Println(err)
		return 1, true
	}
	return 0, true
}
