package server_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/server"
)

// door is a server whose calls are answered by call, without a Runtime.
func door(t *testing.T, o server.Options) (socket string) {
	t.Helper()
	srv, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "isolate-s-")
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := server.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		began := time.Now()
		srv.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("Close took %s: it waited for a peer", took)
		}
		os.RemoveAll(dir)
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	})
	return socket
}

func dial(t *testing.T, socket string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// frame is a command line as it goes through the door.
func frame(args ...string) []byte {
	var body []byte
	for _, n := range []int{len(args), 0, 3} {
		body = binary.LittleEndian.AppendUint32(body, uint32(n))
	}
	body = append(body, "/\x00"+strings.Join(args, "\x00")+"\x000\x001\x002\x00"...)
	head := binary.LittleEndian.AppendUint32([]byte(client.DoorMagic), uint32(len(body)))
	return append(head, body...)
}

func send(t *testing.T, c *net.UnixConn, data []byte, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.WriteMsgUnix(data, unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
}

func answerOf(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func null(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestDoor: a call has what was passed, signals come, the code goes back.
func TestDoor(t *testing.T) {
	socket := door(t, server.Options{Call: func(ctx context.Context, c *server.Call) {
		_, _ = io.WriteString(c.Files[1], strings.Join(c.Args, ",")+" in "+c.Dir)
		sig := <-c.Signals
		c.Exit(int(sig))
	}})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := dial(t, socket)
	n := null(t)
	send(t, c, frame("isolate", "exec"), n, w, n)
	w.Close()
	b := make([]byte, 100)
	k, err := r.Read(b)
	if string(b[:k]) != "isolate,exec in /" {
		t.Errorf("%q, %v", b[:k], err)
	}
	if _, err := c.Write([]byte{byte(syscall.SIGTERM)}); err != nil {
		t.Fatal(err)
	}
	if got := answerOf(t, c); got != "x\x0f" {
		t.Errorf("answer %q", got)
	}
}

// TestDoorRefers: what the door cannot take it gives back, and nothing of it
// was done.
func TestDoorRefers(t *testing.T) {
	before := descriptors(t)["all"]
	socket := door(t, server.Options{Call: func(ctx context.Context, c *server.Call) {
		t.Errorf("called with %q", c.Args)
	}})
	n := null(t)
	whole := frame("isolate", "exec")
	wrong := append([]byte(nil), whole...)
	wrong[12] = 9 // more arguments than there are
	for name, c := range map[string]struct {
		data  []byte
		files []*os.File
	}{
		"no descriptors":            {whole, nil},
		"one descriptor":            {whole, []*os.File{n}},
		"four where three are told": {whole, []*os.File{n, n, n, n}},
		"wrong counts":              {wrong, []*os.File{n, n, n}},
		"another protocol":          {append([]byte("\x00isolat\x07"), whole[8:]...), []*os.File{n, n, n}},
	} {
		conn := dial(t, socket)
		send(t, conn, c.data, c.files...)
		if got := answerOf(t, conn); got != "c\x00" {
			t.Errorf("%s: answer %q", name, got)
		}
	}
	// what is no frame at all is not answered
	for name, c := range map[string][]*os.File{
		"too many descriptors": {n, n, n, n, n, n, n, n, n, n},
	} {
		conn := dial(t, socket)
		send(t, conn, whole, c...)
		if got, _ := io.ReadAll(conn); len(got) != 0 {
			t.Errorf("%s: answer %q", name, got)
		}
	}
	within(t, "the descriptors to be given back", func() bool { return descriptors(t)["all"] <= before+12 })
}

// TestDoorWithoutCommand: a server that takes no commands says so.
func TestDoorWithoutCommand(t *testing.T) {
	c := dial(t, door(t, server.Options{}))
	n := null(t)
	send(t, c, frame("isolate", "exec"), n, n, n)
	if got := answerOf(t, c); got != "c\x00" {
		t.Errorf("answer %q", got)
	}
}

// TestGoneCallers: a call whose process goes away ends, also one that waits
// for its streams.
func TestGoneCallers(t *testing.T) {
	ended := make(chan error, 2)
	began := make(chan bool, 2)
	socket := door(t, server.Options{Call: func(ctx context.Context, c *server.Call) {
		began <- true
		_, err := io.Copy(c.Files[1], c.Files[0]) // waits for one or the other
		if ctx.Err() == nil {
			<-ctx.Done()
		}
		ended <- err
	}})
	quietR, quietW, err := os.Pipe() // nothing comes
	if err != nil {
		t.Fatal(err)
	}
	defer quietR.Close()
	defer quietW.Close()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	fullR, fullW, err := os.Pipe() // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer fullR.Close()
	defer fullW.Close()
	n := null(t)
	for _, files := range [][]*os.File{{quietR, n, n}, {zero, fullW, n}} {
		c := dial(t, socket)
		send(t, c, frame("isolate", "exec"), files...)
		<-began
		c.Close()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("the call goes on")
		}
	}
}

// TestManyConnections: peers that connect and ask for nothing, at first or any
// more, keep nobody out, and do not hold up the end.
func TestManyConnections(t *testing.T) {
	socket := door(t, server.Options{MaxConnections: 4})
	ask := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half of what who says nothing is given
		defer cancel()
		c := client.New(socket)
		t.Cleanup(c.Close) // until then its connection is open
		if _, err := c.Version(ctx); err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		dial(t, socket)
	}
	ask()
	for _, half := range []string{"GET /v1/version HTTP/1.1\r\nHost:", client.DoorMagic + "\x20\x00\x00\x00"} {
		for range 20 {
			if _, err := io.WriteString(dial(t, socket), half); err != nil {
				t.Fatal(err)
			}
		}
		ask()
	}
	for range 20 {
		ask()
	}
}

// TestBusyConnections: who is served is not sent away for others, who wait.
func TestBusyConnections(t *testing.T) {
	began, end := make(chan bool, 4), make(chan bool)
	socket := door(t, server.Options{MaxConnections: 4, Call: func(ctx context.Context, c *server.Call) {
		began <- true
		<-end
		c.Exit(7)
	}})
	n := null(t)
	var all []*net.UnixConn
	for range 4 {
		c := dial(t, socket)
		send(t, c, frame("isolate", "exec"), n, n, n)
		<-began
		all = append(all, c)
	}
	late := dial(t, socket)
	send(t, late, frame("isolate", "exec"), n, n, n)
	select {
	case <-began:
		t.Error("a fifth connection is served")
	case <-time.After(200 * time.Millisecond):
	}
	close(end)
	for _, c := range append(all, late) {
		if got := answerOf(t, c); got != "x\a" {
			t.Errorf("answer %q", got)
		}
	}
}

// TestActivated: a socket of a service manager is used as it is.
func TestActivated(t *testing.T) {
	if l, err := server.Activated(); l != nil || err != nil {
		t.Errorf("without variables: %v, %v", l, err)
	}
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	if l, err := server.Activated(); l != nil || err != nil {
		t.Errorf("for another process: %v, %v", l, err)
	}
	if _, set := os.LookupEnv("LISTEN_FDS"); set {
		t.Error("the variables are inherited")
	}
}
