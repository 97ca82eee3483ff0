package policy

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const fullFile = `
profile = "strict"
rootfs = "/srv/rootfs"
hostname = "h"
preload = "python:a,b.c"
memory = "1G"
cpus = 0.5
pids = 7
disk = "1MiB"
inodes = 8
files = 9
output = "1K"
end-on-output = "end-run"
time = "1s"
cpu-time = "2s"
grace = "1m"
allow = ["weak-limits", "unsafe-binds"]
[env]
A = "1"
B = ""
[[read-only]]
source = "/srv/a"
target = "/a"
[[read-only]]
source = "/srv/b"
[net]
mode = "restricted"
[[net.allow]]
name = "a.example"
ports = [443]
[[net.deny]]
name = "b.example"
`

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want Policy
	}{
		"empty":        {"", Policy{}},
		"comment":      {"# nothing", Policy{}},
		"full":         {fullFile, full()},
		"full CRLF":    {strings.ReplaceAll(fullFile, "\n", "\r\n"), full()},
		"inline":       {"env = { A = '1', B = '' }\nread-only = [ { source = '/srv/a', target = '/a' }, { source = '/srv/b' } ]", Policy{Env: full().Env, ReadOnly: full().ReadOnly}},
		"dotted":       {"env.A = '1'\nenv.B = ''", Policy{Env: full().Env}},
		"quoted keys":  {"\"memory\" = '1G'\n'env'.\"A\" = '1'", Policy{Memory: GiB, Env: map[string]string{"A": "1"}}},
		"escapes":      {"hostname = \"\\u0068\"\nenv.A = \"\"\"\na\\\n b\"\"\"", Policy{Hostname: "h", Env: map[string]string{"A": "ab"}}},
		"numbers":      {"pids = 0x10\nfiles = 1_024\ninodes = 0o17\ncpus = 1e0", Policy{PIDs: 16, Files: 1024, Inodes: 15, CPUs: 1}},
		"whole cpus":   {"cpus = 1_0", Policy{CPUs: 10}},
		"hex cpus":     {"cpus = 0x1_0", Policy{CPUs: 16}},
		"list lines":   {"allow = [ # consent\n  'weak-limits',\n]", Policy{Allow: []Weakening{WeakLimits}}},
		"empty tables": {"env = {}\nread-only = []\nallow = []", Policy{}},
		// What depends on other settings or on consent is for Validate: a flag
		// may still change it.
		"for Validate": {"disk = '1G'\ngrace = '1s'\n[[read-only]]\nsource = '/root'", Policy{Disk: GiB, Grace: time.Second, ReadOnly: []Bind{{"/root", ""}}}},
	} {
		got, err := Decode("p.toml", []byte(c.file))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// problemsOf decodes a file that has to be refused.
func problemsOf(t *testing.T, file string) []Problem {
	t.Helper()
	p, err := Decode("p.toml", []byte(file))
	var refused *DecodeError
	if !errors.As(err, &refused) || len(refused.Problems) == 0 {
		t.Fatalf("Decode(%.60q) = %v, want a DecodeError with problems", file, err)
	}
	if !reflect.DeepEqual(p, Policy{}) {
		t.Errorf("Decode(%.60q) gives %+v with its error", file, p)
	}
	for _, problem := range refused.Problems {
		if problem.What == "" || problem.Hint == "" {
			t.Errorf("Decode(%.60q): %+v, want What and Hint", file, problem)
		}
	}
	return refused.Problems
}

func TestDecodePlaces(t *testing.T) {
	for _, c := range []struct{ file, places string }{
		{"memroy = '1G'", "1:1"},
		{"\n  memory = 512", "2:12 memory"},
		{"memory = '512'\nmemory = '1G'", "1:10 memory, 2:1 memory"},
		{"pids = -1\ninodes = 0\nfiles = 9223372036854775808\ncpus = -0.0", "1:8 pids, 2:10 inodes, 3:9 files, 4:8 cpus"},
		{"cpus = 0x1FFFFFFFFFFFFFFFF", "1:8 cpus"},
		{"cpus = nan\r\npids = 1.0\r\ntime = 60\r\ngrace = true", "1:8 cpus, 2:8 pids, 3:8 time, 4:9 grace"},
		{"time = 2026-01-01\nprofile = 'loose'\nend-on-output = true", "1:8 time, 2:11 profile, 3:17 end-on-output"},
		{"memory.max = '1G'\n[pids]\nmax = 1\n[[time]]\nx = 1", "1:1 memory, 2:2 pids, 4:3 time"},
		{"env = 'A=1'\nallow = 'weak-limits'\nread-only = '/srv'", "1:7 env, 2:9 allow, 3:13 read-only"},
		{"allow = ['weak-limits', 1, 'weak-limits', 'x', ['weak-limits']]", "1:1 allow, 1:25 allow, 1:28 allow[1], 1:43 allow[2]"},
		{"[env]\nA = 1\n1B = 'x'\nA-B = ''\nC.D = ''\nE = \"a\\u0000\"", "2:5 env.A, 3:1 env.1B, 4:1 env.A-B, 5:1 env.C.D, 6:1 env.E"},
		{"env = { A = '1', A = '2', B = [] }", "1:18 env.A, 1:27 env.B"},
		{"env.A = '1'\n[env]\nB = '2'", "2:2 env"},
		{"[env]\nA='1'\n[env]\nB='2'", "3:2 env"},
		{"[env.A]\nx = 1\n[[env]]\ny = 1", "1:2 env, 3:3 env"},
		{"[read-only]\nsource = '/srv'", "1:2 read-only"},
		{"read-only.source = '/srv'", "1:1 read-only"},
		{"read-only = ['/srv', {source = '/srv/a', mode = 'rw'}, {}]", "1:1 read-only[1].source, 1:14 read-only, 1:42"},
		{"[[read-only]]\ntarget = '/a'\n[[read-only]]\nsource = 'srv'\n\n[[read-only]]\nsource = ''\nsource = '/a'", "1:3 read-only[0].source, 4:10 read-only[1].source, 7:10 read-only[2].source, 8:1 read-only[2].source"},
		{"[[read-only]]\nsource = '/srv/a'\ntarget = '/proc'\nsourc = '/b'\nsource.x = 1", "3:10 read-only[0].target, 4:1, 5:1"},
		{"hostname = 'a_b'\nrootfs = 'x'\nmemory = '1K'", "1:12 hostname, 2:10 rootfs, 3:10 memory"},
		{"rootfs = ''\nhostname = ''", "1:10 rootfs, 2:12 hostname"},
		{"memroy = 1\npids = 0\nx = \nfiles = 1", "1:1, 2:8 pids, 3:5"},
		{"x", "1:1"},
		{"a = 'b", "1:6"},
		{"\xef\xbb\xbfmemory = '1G'", "1:1"},
		{"hostname = '\xff'", "1:13"},
		{"memory: 512M", "1:7"},
		{"# ok\npids = 01", "2:8"},
		{"{\"memory\": \"1G\"}", "1:1"},
		{"read-only = []\n[[read-only]]\nsource = '/srv/a'", "2:3"},
		{"[unknown]\na = 1\na = 2", "1:2, 3:1"},
		{"[[read-only]]\nsource = 1\ntarget = ['/a']", "2:10 read-only[0].source, 3:1 read-only[0].target"},
		{"[unknown]\na = 1\nb = 2\n[env]\nA = 1", "1:2, 5:5 env.A"},
	} {
		var places []string
		for _, p := range problemsOf(t, c.file) {
			places = append(places, strings.TrimSpace(fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Field)))
		}
		if got := strings.Join(places, ", "); got != c.places {
			t.Errorf("Decode(%q): problems at %s\nwant %s", c.file, got, c.places)
		}
	}
}

// A hostile or mistaken file costs little time and gives a list of problems
// that a person can read.
func TestDecodeIsBounded(t *testing.T) {
	lines := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < MaxFileSize-100; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	list := func(item string) string { return strings.Repeat(item, (MaxFileSize-100)/len(item)) }
	for name, file := range map[string]string{
		"keys":          lines("a%d = 1\n"),
		"variables":     "[env]\n" + lines("A%d = ''\n"),
		"tables":        lines("[a%d]\n"),
		"binds":         list("[[read-only]]\n"),
		"long key":      list("a") + " = 1",
		"long value":    "memory = '" + list("1") + "'",
		"parts":         list("a.") + "a = 1",
		"table parts":   "[" + list("a.") + "a]",
		"list":          "allow = [" + list("'weak-limits',") + "]",
		"wrong list":    "allow = [" + list("1,") + "]",
		"deep list":     "allow = " + list("["),
		"deep table":    "env = " + list("{a="),
		"inline keys":   "x = {" + strings.ReplaceAll(lines("a%d = 1,\n"), "\n", " ") + "z = 1}",
		"inline tables": "read-only = [" + list("{},") + "]",
		"zero bytes":    list("\x00"),
	} {
		began := time.Now()
		_, err := Decode("p.toml", []byte(file))
		var refused *DecodeError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, want a DecodeError", name, err)
			continue
		}
		if len(refused.Problems) > maxProblems+1 || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %d problems in %d bytes", name, len(refused.Problems), len(err.Error()))
		}
		// Measured at 0.3 s at most; the library alone takes 36 s for "keys".
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestDecodeCutsTheList(t *testing.T) {
	var b strings.Builder
	for i := range maxProblems + 5 {
		fmt.Fprintf(&b, "unknown%d = 1\n", i)
	}
	ps := problemsOf(t, b.String())
	if last := ps[len(ps)-1]; len(ps) != maxProblems+1 || !strings.Contains(last.What, "other 5 problems") {
		t.Errorf("%d problems, the last %+v; want %d and one that counts the other 5", len(ps), last, maxProblems)
	}
}

func TestDecodeRefusesLargeFiles(t *testing.T) {
	fits := "#" + strings.Repeat(" ", MaxFileSize-1)
	if _, err := Decode("p.toml", []byte(fits)); err != nil {
		t.Errorf("file of %d bytes: %v", len(fits), err)
	}
	if ps := problemsOf(t, fits+" "); !strings.Contains(ps[0].What, "more than 1M") {
		t.Errorf("file of one byte more: %+v", ps)
	}
}

func TestRead(t *testing.T) {
	got, err := Read("p.toml", iotest.OneByteReader(strings.NewReader(fullFile)))
	if err != nil || !reflect.DeepEqual(got, full()) {
		t.Errorf("Read = %+v, %v", got, err)
	}
	if _, err := Read("p.toml", iotest.ErrReader(io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Read of a failing file: %v", err)
	}
	// An endless file is neither read to its end nor cut and then used.
	endless := &counter{}
	var refused *DecodeError
	if _, err := Read("p.toml", endless); !errors.As(err, &refused) || endless.n > MaxFileSize+1 {
		t.Errorf("Read of an endless file: %v after %d bytes", err, endless.n)
	}
}

// counter is an endless comment.
type counter struct{ n int }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	c.n += len(p)
	return len(p), nil
}
