package netd

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/egress/control"
)

// pieces is a body that comes as it is cut.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; (*p)[0] == "" {
		*p = (*p)[1:]
	}
	return n, nil
}

// However a body is cut, a placeholder in it is found before it has gone out
// as a whole, and everything else passes as it is.
func TestWatchedBody(t *testing.T) {
	n := &Network{options: Options{Secrets: map[string]control.Secret{"A": {Placeholder: "mark-1"}, "B": {Placeholder: "another-mark-2"}, "OWN": {Placeholder: "own-mark-3"}}}}
	own := secrets{{placeholder: "own-mark-3"}}
	read := func(trailer http.Header, cut ...string) (string, bool, error) {
		body, found := pieces(slices.Clone(cut)), 0
		out := &http.Request{Body: io.NopCloser(&body), Trailer: trailer}
		seen := n.watchBody(out, own, func() { found++ })
		text, err := io.ReadAll(out.Body)
		if _, again := out.Body.Read(make([]byte, 8)); found > 0 && again != errCarried {
			t.Errorf("%q: it goes on with %v", cut, again)
		}
		if seen() != (found == 1) || found > 1 {
			t.Errorf("%q: found %d times, seen %t", cut, found, seen())
		}
		return string(text), found > 0, err
	}
	for _, mark := range []string{"mark-1", "another-mark-2"} {
		whole := "some " + mark + " text"
		for i := range whole {
			for j := i; j < len(whole); j++ {
				text, found, err := read(nil, whole[:i], whole[i:j], whole[j:])
				if !found || !errors.Is(err, errCarried) || strings.Contains(text, mark) {
					t.Errorf("%q %q %q: %q, %t, %v", whole[:i], whole[i:j], whole[j:], text, found, err)
				}
			}
		}
		if _, found, _ := read(nil, strings.Split(whole, "")...); !found {
			t.Errorf("%q byte by byte is not found", whole)
		}
		if _, found, _ := read(http.Header{"X": {mark}}, "text"); !found {
			t.Errorf("%q in a trailer is not found", mark)
		}
		if _, found, _ := read(nil, strings.Repeat("x", 1<<20)+mark); !found {
			t.Errorf("%q behind a mebibyte is not found", mark)
		}
	}
	for _, cut := range [][]string{{"mar", "k_1"}, {"own-mark-3"}, {"mark-", "-1"}, {strings.Repeat("mark-", 1000)}, {""}} {
		if text, found, err := read(nil, cut...); found || err != nil || text != strings.Join(cut, "") {
			t.Errorf("%q: %q, %t, %v", cut, text, found, err)
		}
	}
	out := &http.Request{Body: http.NoBody}
	if n.watchBody(out, own, nil); out.Body != http.NoBody {
		t.Error("no body became one")
	}
}

// A placeholder in the body of a request to another host ends it, over HTTP/1
// and 2 on either side, also when its length is not known and it comes in
// pieces; that of the host itself may be in its requests.
func TestSecretInABody(t *testing.T) {
	var whole atomic.Int32
	reads := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil && strings.Contains(string(b), "PLACEHOLDER-1") {
			whole.Add(1)
		}
		saysWhat(w, r)
	}
	for name, bed := range map[string]func() (*bed, *http.Client){
		"HTTP/1":        func() (*bed, *http.Client) { return apiBed(t, reads) },
		"HTTP/2":        func() (*bed, *http.Client) { return http2Bed(t, []string{protocolHTTP2, protocolHTTP1}, reads) },
		"HTTP/2 before": func() (*bed, *http.Client) { return http2Bed(t, []string{protocolHTTP1}, reads) },
	} {
		whole.Store(0)
		b, c := bed()
		for _, body := range []io.Reader{
			strings.NewReader("x=PLACEHOLDER-1"),
			&pieces{"x=PLACE", "HOLDER", "-1&y=2"},
			strings.NewReader(strings.Repeat("y", 300<<10) + "PLACEHOLDER-1" + strings.Repeat("y", 300<<10)),
		} {
			req, err := http.NewRequest("POST", "https://open.example/", body)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Do(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.Body.Close()
			if r.StatusCode != 403 || r.Header.Get("X-Isolate-Reason") != string(egress.ReasonSecretScope) {
				t.Errorf("%s: got %d %s", name, r.StatusCode, r.Header.Get("X-Isolate-Reason"))
			}
		}
		if e := b.event(egress.EventRequest, egress.ReasonSecretScope); e.Host != "open.example" || e.Method != "POST" || e.Status != 403 {
			t.Errorf("%s: %+v", name, e)
		}
		if n := whole.Load(); n != 0 {
			t.Errorf("%s: %d have gone out", name, n)
		}
		req, _ := http.NewRequest("POST", "https://open.example/", strings.NewReader("PLACEHOLDER-2"))
		if r, err := c.Do(req); err != nil || r.StatusCode != 200 {
			t.Errorf("%s: another body: %v, %v", name, r, err)
		} else {
			r.Body.Close()
		}
		if name != "HTTP/1" { // whose bed allows no POST there
			req, _ = http.NewRequest("POST", "https://api.example/v1/x", strings.NewReader("PLACEHOLDER-1"))
			if r, err := c.Do(req); err != nil || r.StatusCode != 200 {
				t.Errorf("%s: the host's own: %v, %v", name, r, err)
			} else {
				r.Body.Close()
			}
		}
	}
}
