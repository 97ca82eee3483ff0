package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/client"
)

// frameBody is the body of a frame as the command writes it.
func frameBody(dir string, args, env, fds []string) []byte {
	var b []byte
	for _, list := range [][]string{args, env, fds} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(list)))
	}
	b = append(append(b, dir...), 0)
	for _, list := range [][]string{args, env, fds} {
		for _, s := range list {
			b = append(append(b, s...), 0)
		}
	}
	return b
}

func frame(body []byte) []byte {
	b := append([]byte(client.DoorMagic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[len(client.DoorMagic):], uint32(len(body)))
	return append(b, body...)
}

// nulls opens n descriptors.
func nulls(t testing.TB, n int) []*os.File {
	t.Helper()
	var list []*os.File
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		list = append(list, f)
	}
	return list
}

var streams = []string{"0", "1", "2"}

func TestDecodeCall(t *testing.T) {
	body := frameBody("/a b", []string{"isolate", "exec", "", "x\ny"}, []string{"A=1=2", "B="}, []string{"0", "1", "2", "9"})
	c, err := decodeCall(body, nulls(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	if c.Dir != "/a b" || !reflect.DeepEqual(c.Args, []string{"isolate", "exec", "", "x\ny"}) ||
		!reflect.DeepEqual(c.Env, map[string]string{"A": "1=2", "B": ""}) || len(c.Files) != 4 || c.Files[9] == nil {
		t.Errorf("%+v", c)
	}
}

// TestDecodeCallTools: what is named "tools" is a Unix socket, or the call is
// refused.
func TestDecodeCallTools(t *testing.T) {
	decode := func(f *os.File) (*Call, error) {
		body := frameBody("/", []string{"isolate"}, nil, []string{"0", "1", "2", client.DoorTools})
		return decodeCall(body, append(nulls(t, 3), f))
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fds[1]), "other")
	defer other.Close()
	c, err := decode(os.NewFile(uintptr(fds[0]), "tools"))
	if err != nil || c.Tools == nil || len(c.Files) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	c.release()
	if n, err := other.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the call the other end reads %d bytes, %v", n, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{"a file": nulls(t, 1)[0], "another kind of socket": tcp} {
		if c, err := decode(f); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestDecodeCallRefuses(t *testing.T) {
	good := frameBody("/", []string{"isolate"}, nil, streams)
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[4:], 1<<32-1)
	for name, c := range map[string]struct {
		body  []byte
		files int
	}{
		"nothing":                     {nil, 3},
		"counts alone":                {good[:12], 3},
		"cut off":                     {good[:len(good)-1], 3},
		"too long":                    {append(bytes.Clone(good), "x\x00"...), 3},
		"a descriptor that is not":    {good, 2},
		"a descriptor too many":       {good, 4},
		"no arguments":                {frameBody("/", nil, nil, streams), 3},
		"no number":                   {frameBody("/", []string{"a"}, nil, []string{"0", "1", "-2"}), 3},
		"the same descriptor twice":   {frameBody("/", []string{"a"}, nil, []string{"0", "1", "1"}), 3},
		"no standard error":           {frameBody("/", []string{"a"}, nil, []string{"0", "1", "3"}), 3},
		"a variable without a value":  {frameBody("/", []string{"a"}, []string{"X"}, streams), 3},
		"a count beyond every number": {huge, 3},
	} {
		if c, err := decodeCall(c.body, nulls(t, c.files)); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestReadFrame(t *testing.T) {
	body := frameBody("/", []string{"isolate", strings.Repeat("x", 100000)}, nil, streams)
	whole := frame(body)
	for _, first := range []int{1, 7, 12, 13, 5000, len(whole)} {
		got, err := readFrame(bytes.NewReader(whole[first:]), bytes.Clone(whole[:first]))
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("first read of %d bytes: %d bytes, %v", first, len(got), err)
		}
	}
	tooBig := frame(nil)
	binary.LittleEndian.PutUint32(tooBig[8:], client.DoorMax+1)
	for name, b := range map[string][]byte{
		"cut off":          whole[:len(whole)-1],
		"another protocol": append([]byte("\x00isolat\x02"), whole[8:]...),
		"too big":          tooBig,
		"more than a body": append(bytes.Clone(whole), 0),
	} {
		if _, err := readFrame(bytes.NewReader(b[1:]), b[:1:1]); err == nil && name != "more than a body" {
			t.Errorf("%s: accepted", name)
		}
		if _, err := readFrame(bytes.NewReader(nil), bytes.Clone(b)); err == nil {
			t.Errorf("%s, in one read: accepted", name)
		}
	}
}

func FuzzDecodeCall(f *testing.F) {
	f.Add(frameBody("/", []string{"isolate", "exec"}, []string{"A=1"}, streams))
	f.Add([]byte{})
	files := nulls(f, 3)
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := decodeCall(body, files)
		if err != nil {
			return
		}
		if len(c.Args) == 0 || len(c.Files) != 3 {
			t.Errorf("%+v", c)
		}
	})
}
