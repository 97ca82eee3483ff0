package policy

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"256M", "256MiB", "1G", "1.5GiB", "64K", "100B", "2T", "512", "", "lots", "-1G", "0", "1.5.2G", "8388608T", "0.0009765625K", "1e9M", "٣M"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			fuzzProblem(t, err)
			return
		}
		if size <= 0 {
			t.Fatalf("ParseSize(%q) = %d", text, int64(size))
		}
		if again, err := ParseSize(size.String()); err != nil || again != size {
			t.Fatalf("ParseSize(%q) = %d, printed as %q, which reads as %d, %v", text, int64(size), size, int64(again), err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"60s", "500ms", "2m", "1h30m", "1.5s", "20µs", "1ns", "", "60", "0", "0s", "-1s", "+1s", "1d", "9999999h", "1..5s", "0.1ns"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			fuzzProblem(t, err)
			return
		}
		// What we take, package time takes, and for the same.
		if std, err := time.ParseDuration(text); err != nil || std != d || d <= 0 {
			t.Fatalf("ParseDuration(%q) = %v, package time: %v, %v", text, d, std, err)
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("ParseDuration(%q) = %v, which reads as %v, %v", text, d, again, err)
		}
		if again, err := ParseDuration(shortDuration(d)); err != nil || again != d {
			t.Fatalf("%v in short is %q, which reads as %v, %v", d, shortDuration(d), again, err)
		}
	})
}

// fuzzProblem checks an error that a person is to read.
func fuzzProblem(t *testing.T, err error) {
	var p Problem
	if !errors.As(err, &p) || p.What == "" || p.Hint == "" {
		t.Fatalf("%#v, want a Problem with What and Hint", err)
	}
	if len(err.Error()) > 1024 {
		t.Fatalf("error of %d bytes: %.100s", len(err.Error()), err.Error())
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{
		"", fullFile, "memory = 512", "memroy = '1G'", "pids = 0x10\ncpus = 1_0.5e0", "cpus = 0x1", "env = {A = '1'}", "env.A = '1'\n[env]\n",
		"[env]\nA = 1\n", "[[read-only]]\nsource = '/srv'\n[[read-only]]", "read-only = [{source='/a'}, 1]", "allow = ['weak-limits', 1]",
		"[a.b.c]\nd = 1", "x = {a = {b = [1, {}]}}", "time = 2026-01-01", "hostname = \"\"\"\\u0000\"\"\"", "a = '", "\xef\xbb\xbf", "pids = 01", "x.y.z = [[[",
		"net = {mode = 'full'}", "[net]\nmode = 'restricted'\n[[net.allow]]\nname = 'a.example'\nports = [1, 2]\n[[net.deny]]\ncidr = '9.9.9.0/24'",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode("fuzz", data)
		if err != nil {
			fuzzRefusal(t, data, p, err)
			return
		}
		if ps := p.checkFields(); len(ps) > 0 {
			t.Fatalf("decoded a policy that is wrong by itself: %v", ps)
		}
		once := p.WithDefaults()
		if twice := once.WithDefaults(); !reflect.DeepEqual(once, twice) {
			t.Fatalf("WithDefaults twice: %+v, once: %+v", twice, once)
		}
		p.Validate(Surroundings{RuntimeDir: "/run/user/1000", Home: "/home/a"})
		sameAsLibrary(t, data, p)
		sameWritten(t, p)
	})
}

// sameWritten checks that a policy which was read can be written and read again.
func sameWritten(t *testing.T, p Policy) {
	text, err := Encode(p)
	if err != nil {
		t.Fatalf("cannot write %+v: %v", p, err)
	}
	again, err := Decode("again", text)
	if err != nil {
		t.Fatalf("cannot read %q of %+v again: %v", text, p, err)
	}
	if twice, err := Encode(again); err != nil || string(twice) != string(text) {
		t.Fatalf("%q, %v; the second time; the first %q", twice, err, text)
	}
}

// fuzzRefusal checks that a refusal has places inside the file, in order.
func fuzzRefusal(t *testing.T, data []byte, p Policy, err error) {
	var refused *DecodeError
	if !errors.As(err, &refused) || len(refused.Problems) == 0 || !reflect.DeepEqual(p, Policy{}) {
		t.Fatalf("Decode = %+v, %v", p, err)
	}
	lines := 1
	for _, c := range data {
		if c == '\n' {
			lines++
		}
	}
	before := Problem{}
	for _, problem := range refused.Problems {
		fuzzProblem(t, problem)
		if problem.Line == 0 { // the file as a whole, or the end of a long list
			continue
		}
		if problem.Line > lines || problem.Column < 1 || problem.Column > len(data)+1 ||
			problem.Line < before.Line || problem.Line == before.Line && problem.Column < before.Column {
			t.Fatalf("problem %+v after %+v in a file of %d lines", problem, before, lines)
		}
		before = problem
	}
}

// sameAsLibrary compares what the walk over the parser read with what the
// library's own decoder makes of the same file.
func sameAsLibrary(t *testing.T, data []byte, p Policy) {
	var file struct {
		Profile, Rootfs, Hostname, Preload, Memory, Disk, Output, Time, Grace string

		CPUs                any // into a float the library reads no 0x1
		PIDs, Inodes, Files int
		CPUTime             string `toml:"cpu-time"`
		EndOnOutput         string `toml:"end-on-output"`
		Env                 map[string]string
		Allow               []Weakening
		ReadOnly            []Bind `toml:"read-only"`
		Net                 struct {
			Mode  string
			Allow []struct {
				Name, CIDR, Protocol, TLS string
				Ports                     []int
				Methods, Paths            []string
			}
			Deny []struct{ Name, CIDR string }
		}
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		t.Fatalf("decoded what the library refuses: %v", err)
	}
	cpus, _ := file.CPUs.(float64)
	if whole, ok := file.CPUs.(int64); ok {
		cpus = float64(whole)
	}
	want := Policy{
		Rootfs: file.Rootfs, Hostname: file.Hostname, CPUs: cpus, PIDs: file.PIDs, Inodes: file.Inodes, Files: file.Files,
		Allow: p.Allow, Env: p.Env, ReadOnly: p.ReadOnly, Net: p.Net,
	}
	if n := file.Net; n.Mode != "" && n.Mode != p.Net.Mode.String() || len(n.Allow) != len(p.Net.Rules) || len(n.Deny) != len(p.Net.Deny) {
		t.Fatalf("decoded %+v, the library %+v", p.Net, n)
	}
	for i, r := range p.Net.Rules {
		l := file.Net.Allow[i]
		if r.Name != l.Name || r.CIDR != l.CIDR || !slices.Equal(r.Ports, l.Ports) || !slices.Equal(r.Methods, l.Methods) || !slices.Equal(r.Paths, l.Paths) ||
			l.Protocol != "" && l.Protocol != r.Protocol.String() || l.TLS != "" && l.TLS != r.TLS.String() {
			t.Fatalf("decoded %+v, the library %+v", r, l)
		}
	}
	for text, read := range map[*string]func(string) error{
		&file.Profile:     func(s string) error { return want.Profile.UnmarshalText([]byte(s)) },
		&file.EndOnOutput: func(s string) error { return want.EndOnOutput.UnmarshalText([]byte(s)) },
		&file.Preload:     func(s string) (err error) { want.Preload, err = ParsePreload(s); return err },
		&file.Memory:      func(s string) (err error) { want.Memory, err = ParseSize(s); return err },
		&file.Disk:        func(s string) (err error) { want.Disk, err = ParseSize(s); return err },
		&file.Output:      func(s string) (err error) { want.Output, err = ParseSize(s); return err },
		&file.Time:        func(s string) (err error) { want.Wall, err = ParseDuration(s); return err },
		&file.CPUTime:     func(s string) (err error) { want.CPUTime, err = ParseDuration(s); return err },
		&file.Grace:       func(s string) (err error) { want.Grace, err = ParseDuration(s); return err },
	} {
		if *text != "" {
			if err := read(*text); err != nil {
				t.Fatalf("decoded %q: %v", *text, err)
			}
		}
	}
	// Nil and empty are the same to the library but not to DeepEqual.
	if !reflect.DeepEqual(p, want) || len(p.Allow) != len(file.Allow) || len(p.ReadOnly) != len(file.ReadOnly) || len(p.Env) != len(file.Env) ||
		len(p.Allow) > 0 && !reflect.DeepEqual(p.Allow, file.Allow) || len(p.ReadOnly) > 0 && !reflect.DeepEqual(p.ReadOnly, file.ReadOnly) ||
		len(p.Env) > 0 && !reflect.DeepEqual(p.Env, file.Env) {
		t.Fatalf("decoded %+v, the library %+v", p, file)
	}
}
