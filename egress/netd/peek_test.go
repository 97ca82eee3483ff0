package netd

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// dotted puts a dot behind the name of a hello in one record, whose name is the
// last thing in its extension.
func dotted(hello []byte) []byte {
	const name = "allowed.example"
	end := bytes.Index(hello, []byte(name)) + len(name)
	h := slices.Insert(bytes.Clone(hello), end, '.')
	extensions := 5 + 4 + 2 + 32
	extensions += 1 + int(h[extensions])
	extensions += 2 + int(h[extensions])<<8 + int(h[extensions+1])
	extensions += 1 + int(h[extensions])
	text := end - len(name) - 2
	for _, at := range []int{3, 7, extensions, text - 5, text - 3, text} {
		n := int(h[at])<<8 + int(h[at+1]) + 1
		h[at], h[at+1] = byte(n>>8), byte(n)
	}
	return h
}

// inRecords is a hello in one record, in records of so many bytes.
func inRecords(hello []byte, size int) (out []byte) {
	for part := range slices.Chunk(hello[5:], size) {
		out = append(out, 0x16, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// D 31: a name with one dot at its end is that name; RFC 6066 has none there, and
// crypto/tls would not read it.
func TestPeekDottedName(t *testing.T) {
	plain := recordHello(t, "allowed.example")
	want := egress.Seen{}
	for _, c := range []struct {
		name  string
		hello []byte
		kind  egress.Kind
	}{
		{"none", plain, egress.SeenTLS},
		{"one", dotted(plain), egress.SeenTLS},
		{"in pieces", inRecords(dotted(plain), 3), egress.SeenTLS},
		{"two", dotted(dotted(plain)), egress.SeenOther},
		{"cut", dotted(plain)[:len(plain)-1], egress.SeenOther},
	} {
		head, seen := peek(&memoryConn{strings.NewReader(string(c.hello))}, time.Second)
		if seen.Kind != c.kind || !bytes.Equal(head, c.hello) {
			t.Errorf("%s: %+v, %d of %d bytes", c.name, seen, len(head), len(c.hello))
		}
		switch {
		case c.name == "none":
			want = seen
			want.Server += "."
		case c.kind == egress.SeenTLS && !reflect.DeepEqual(seen, want):
			t.Errorf("%s: %+v, want %+v", c.name, seen, want)
		}
	}
	if withoutDot(plain) != nil || !bytes.Equal(withoutDot(dotted(plain)), inRecords(plain, recordMost)) {
		t.Error("what is without the dot is not the hello without it")
	}

	b := newBed(t, restricted(egress.Rule{Name: "allowed.example"}))
	b.world.name("allowed.example", "9.9.9.9")
	b.world.server("9.9.9.9:443", listen(t, echo))
	conn := b.mustReach("allowed.example", 443)
	if _, err := conn.Write(dotted(plain)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	back := make([]byte, len(plain)+1)
	if _, err := io.ReadFull(conn, back); err != nil || !bytes.Equal(back, dotted(plain)) {
		t.Errorf("what was sent did not arrive as it was: %v", err)
	}
}
