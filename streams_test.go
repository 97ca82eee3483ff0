package isolate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCapped(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   int64
		writes  []string
		kept    string
		dropped int64
	}{
		{"nothing", 10, nil, "", 0},
		{"below", 10, []string{"abc", "def"}, "abcdef", 0},
		{"exactly", 6, []string{"abc", "def"}, "abcdef", 0},
		{"one over", 6, []string{"abcd", "efg"}, "abc" + marker(1) + "efg", 1},
		{"one long write", 6, []string{"abcdefghijkl"}, "abc" + marker(6) + "jkl", 6},
		{"many", 4, strings.Split("abcdefghij", ""), "ab" + marker(6) + "ij", 6},
		{"odd limit", 5, []string{"abcdefgh"}, "abc" + marker(3) + "gh", 3},
		{"limit one", 1, []string{"ab"}, "a" + marker(1), 1},
		{"wrap around", 8, []string{"1234", "abcd", "ef", "ghi"}, "1234" + marker(5) + "fghi", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			for _, w := range []*bytes.Buffer{nil, &out} {
				var to *capped
				if w == nil {
					to = newCapped(nil, c.limit, nil)
				} else {
					to = newCapped(w, c.limit, nil)
				}
				for _, p := range c.writes {
					to.write([]byte(p))
				}
				s := to.finish()
				got := string(s.Kept)
				if w != nil {
					got = w.String()
				}
				total := int64(len(strings.Join(c.writes, "")))
				if got != c.kept || s.Dropped != c.dropped || s.Total != total {
					t.Errorf("kept %q, dropped %d of %d; want %q, %d of %d", got, s.Dropped, s.Total, c.kept, c.dropped, total)
				}
			}
		})
	}
}

func marker(n int) string { return fmt.Sprintf("\n[isolate: %d bytes dropped]\n", n) }

func TestCappedTellsOnce(t *testing.T) {
	calls := 0
	c := newCapped(nil, 4, func() { calls++ })
	c.write([]byte("abcd"))
	if calls != 0 {
		t.Error("told before the limit was passed")
	}
	c.write([]byte("e"))
	c.write([]byte("f"))
	if calls != 1 {
		t.Errorf("told %d times, want once", calls)
	}
}

// A writer that fails ends the copying, not the draining: what it did not take
// is counted, and is not said to have been over the limit.
func TestCappedFailingWriter(t *testing.T) {
	c := newCapped(failing{}, 100, nil)
	c.write([]byte("abc"))
	c.write([]byte("def"))
	if s := c.finish(); s.Total != 6 || s.Unwritten != 6 || s.Dropped != 0 {
		t.Errorf("%d of %d unwritten, %d dropped; want all of 6 unwritten", s.Unwritten, s.Total, s.Dropped)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("closed") }

func FuzzRing(f *testing.F) {
	f.Add([]byte("abcdefgh"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, limit, step uint8) {
		r := ring{limit: int64(limit)}
		for rest := data; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			r.write(rest[:n])
			rest = rest[n:]
		}
		keep := min(len(data), int(limit))
		if got := r.bytes(); !bytes.Equal(got, data[len(data)-keep:]) || r.lost != int64(len(data)-keep) {
			t.Errorf("kept %q, lost %d of %q with limit %d", got, r.lost, data, limit)
		}
	})
}
