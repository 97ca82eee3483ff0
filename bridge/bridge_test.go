package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen soon, on a machine that does much else.
const patience = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tempDir is a directory in memory where there is one.
func tempDir(t testing.TB) string {
	t.Helper()
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(shm, &st) != nil || st.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "isolate-bridge-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// bench is a bridge without a sandbox: the test is the program.
type rig struct {
	t      testing.TB
	dir    string // Flat; the claims are beside it
	ws     string
	broker *Broker
	server *FileServer
	ids    atomic.Int64
}

// layout makes the directories of a bridge in dir and opens them.
func layout(t testing.TB, dir string) Handles {
	t.Helper()
	open := func(rel string) *os.File {
		path := filepath.Join(dir, rel)
		must(t, os.MkdirAll(path, 0o755))
		f, err := dirfd.Open(path)
		must(t, err)
		return f
	}
	h := Handles{Flat: open("rpc"), Req: open("rpc/req"), Resp: open("rpc/resp"), Claim: open("claim"), Workspace: open("ws")}
	t.Cleanup(func() { h.Workspace.Close() })
	return h
}

func newRig(t testing.TB, o Options, tools ...Tool) *rig {
	t.Helper()
	return newRigIn(t, tempDir(t), o, tools...)
}

func newRigIn(t testing.TB, dir string, o Options, tools ...Tool) *rig {
	t.Helper()
	set, err := NewSet(tools...)
	must(t, err)
	b := NewBroker(set, o)
	w, err := NewWatcher()
	must(t, err)
	s, err := ServeFiles(w, layout(t, dir), b)
	must(t, err)
	r := &rig{t: t, dir: dir + "/rpc", ws: dir + "/ws", broker: b, server: s}
	t.Cleanup(func() {
		b.Close()
		must(t, s.Close())
		must(t, w.Close())
	})
	return r
}

// reply is an answer file.
type reply struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Seq     int64           `json:"seq"`
	Status  string          `json:"status"`
	Result  json.RawMessage `json:"result"`
	Class   Class           `json:"class"`
	Code    Code            `json:"code"`
	Details json.RawMessage `json:"details"`
	Error   string          `json:"error"`
}

func (r *rig) id() string { return "t" + strconv.FormatInt(r.ids.Add(1), 10) }

// write writes a request the way the protocol asks for.
func (r *rig) write(id, body string) {
	r.t.Helper()
	temp := filepath.Join(r.dir, "req", ".tmp-"+id)
	must(r.t, os.WriteFile(temp, []byte(body), 0o600))
	must(r.t, os.Rename(temp, r.req(id)))
}

func (r *rig) req(id string) string { return filepath.Join(r.dir, "req", "req_"+id+".json") }

// read waits for an answer.
func (r *rig) read(id string) reply {
	r.t.Helper()
	a, err := r.await(id, patience)
	must(r.t, err)
	return a
}

var errNoAnswer = errors.New("no answer")

func (r *rig) await(id string, wait time.Duration) (a reply, err error) {
	base := filepath.Join(r.dir, "resp", "resp_"+id)
	for end := time.Now().Add(wait); ; time.Sleep(time.Millisecond / 2) {
		if _, err := os.Lstat(base + ".done"); err == nil {
			break
		}
		if time.Now().After(end) {
			return a, fmt.Errorf("%w to %s within %v", errNoAnswer, id, wait)
		}
	}
	raw, err := os.ReadFile(base + ".json")
	if err != nil {
		return a, err
	}
	if strings.Count(string(raw), "\n") != 1 || raw[len(raw)-1] != '\n' {
		return a, fmt.Errorf("the answer is not one line: %q", raw)
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, err
	}
	if a.ID != id {
		return a, fmt.Errorf("asked as %s, answered as %s", id, a.ID)
	}
	return a, nil
}

// call makes one call and waits for its answer.
func (r *rig) call(tool, args string) reply {
	r.t.Helper()
	id := r.id()
	r.write(id, request(tool, args))
	return r.read(id)
}

func request(tool, args string) string {
	return fmt.Sprintf(`{"tool": %q, "args": %s}`, tool, args)
}

// echo answers with its arguments.
var echo = Tool{Name: "echo", Run: func(_ context.Context, c Call) (Reply, error) { return Reply{Value: c.Args}, nil }}

func constant(name, value string) Tool {
	return Tool{Name: name, Run: func(context.Context, Call) (Reply, error) { return Reply{Value: json.RawMessage(value)}, nil }}
}

func TestCall(t *testing.T) {
	r := newRig(t, Options{}, echo)
	a := r.call("echo", ` { "b" : 1.50, "a": [true, null, "\u00e9\u0000"] } `)
	if a.Status != "ok" || string(a.Result) != `{"a":[true,null,"é\u0000"],"b":1.50}` || a.Tool != "echo" || a.Seq != 1 {
		t.Errorf("answer %+v %s", a, a.Result)
	}
	s := r.broker.Summary()
	if s.Accepted != 1 || s.Done != 1 || s.Ignored != 0 || len(s.Calls) != 1 {
		t.Errorf("summary %+v", s)
	}
	c := s.Calls[0]
	if c.State != Done || c.Via != ViaFile || c.RequestBytes == 0 || len(c.RequestDigest) != 64 || len(c.ArgsDigest) != 64 || c.Wall <= 0 {
		t.Errorf("record %+v", c)
	}
	// What the call left is removed when nobody has asked for a moment.
	waitFor(t, func() bool {
		left, err := os.ReadDir(filepath.Join(filepath.Dir(r.dir), "claim"))
		must(t, err)
		return !slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name()[0] == 'c' || e.Name()[0] == 'a' })
	})
}

// C 11: ten calls at once are at work at once, and no answer is another's.
func TestParallel(t *testing.T) {
	var begun atomic.Int64
	all := make(chan struct{})
	slow := Tool{Name: "slow", Run: func(ctx context.Context, c Call) (Reply, error) {
		if begun.Add(1) == 10 {
			close(all)
		}
		select {
		case <-all:
			return Reply{Value: c.Args}, nil
		case <-ctx.Done():
			return Reply{}, ctx.Err()
		}
	}}
	r := newRig(t, Options{Parallel: 10}, slow)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			if a := r.call("slow", want); string(a.Result) != want {
				t.Errorf("asked for %s, got %s %s", want, a.Result, a.Error)
			}
		})
	}
	wg.Wait()
}

func BenchmarkRoundTrip(b *testing.B) {
	r := newRig(b, Options{MaxCalls: NoLimit, TotalRequestBytes: 1 << 40}, constant("noop", "null"))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	must(b, err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, filepath.Join(r.dir, "resp"), unix.IN_CREATE)
	must(b, err)
	buf := make([]byte, 4096)
	last := ""
	for b.Loop() {
		id := r.id()
		ack := ""
		if last != "" {
			ack = `, "ack": ["` + last + `"]`
		}
		r.write(id, `{"tool": "noop", "args": {}`+ack+`}`)
		for {
			if _, err := unix.Read(watch, buf); err != nil {
				b.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(r.dir, "resp", "resp_"+id+".done")); err == nil {
				break
			}
		}
		if _, err := os.ReadFile(filepath.Join(r.dir, "resp", "resp_"+id+".json")); err != nil {
			b.Fatal(err)
		}
		last = id
	}
}
