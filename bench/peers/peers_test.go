package peers

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/isolate-run/isolate/bench/result"
)

var update = flag.Bool("update", false, "write the expected texts anew")

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("it is\n%s\nnot as in %s; look at it and run with -update", got, file)
	}
}

// aView is one that is the same on all machines.
var aView = View{Show: []string{"/usr", "/etc/ld.so.cache"}, Links: []Link{{"bin", "usr/bin"}, {"lib", "usr/lib"}}}

func TestCommandLines(t *testing.T) {
	var b strings.Builder
	for _, uid := range []int{0, 1000} {
		g := Ground{Dir: "/dir", UID: uid, GID: uid, View: aView}
		for _, p := range All() {
			args := p.line(g, "true", []string{"/bin/true", "an argument"}, "ID")
			line := strings.Join(append([]string{p.Program}, args...), "\n    ")
			if uid == 0 || line != strings.Join(append([]string{p.Program}, p.line(Ground{Dir: "/dir", View: aView}, "true", []string{"/bin/true", "an argument"}, "ID")...), "\n    ") {
				b.WriteString("uid " + map[int]string{0: "0", 1000: "1000"}[uid] + "\n  " + line + "\n")
			}
		}
	}
	golden(t, "lines.golden", b.String())
}

func TestBundle(t *testing.T) {
	dir := t.TempDir()
	view := View{Show: []string{"/usr", "/etc/passwd"}, Links: []Link{{"bin", "usr/bin"}}}
	g := Ground{Dir: dir, UID: 1000, GID: 100, View: view}
	for range 2 { // the tree is there for the second program
		if err := bundle(g, "true", []string{"/bin/true"}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "bundle-true", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "config.golden", strings.ReplaceAll(string(b), dir, "/dir")+"\n")
	var s specs.Spec
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if s.Linux.Seccomp != nil {
		t.Error("the layers of docs/benchmarks.md say that OCI run-times have no filter here")
	}
	for _, m := range s.Mounts {
		if _, err := os.Lstat(filepath.Join(dir, "tree", m.Destination)); err != nil && m.Destination != "/dev/shm" {
			t.Errorf("no place for a mount: %v", err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "tree", "bin")); err != nil || to != "usr/bin" {
		t.Errorf("link to %q: %v", to, err)
	}
}

func TestRunsHaveIDsOfTheirOwn(t *testing.T) {
	p := All()[slices.IndexFunc(All(), func(p Peer) bool { return p.Name == "runc" })]
	launch, err := p.Prepare(Ground{Dir: t.TempDir()}, "/bin/runc", "true", []string{"/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := launch(1), launch(2); slices.Equal(a, b) {
		t.Errorf("twice %q", a)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	p := Peer{Program: "isolate-bench-peer"}
	t.Setenv("PATH", dir)
	if got := p.Find(); got != "" {
		t.Errorf("found %q, which is not there", got)
	}
	file := filepath.Join(dir, p.Program)
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := p.Find(); got != file {
		t.Errorf("found %q, want %q", got, file)
	}
}

// On the host itself the probe sees no layer that could not be one of the host
// itself, and what is hidden from it.
func TestProbe(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := Namespaces()
	if err != nil {
		t.Fatal(err)
	}
	probe := func(file string, env ...string) []result.Layer {
		args := Probe(file)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append([]string{"PATH=" + Path}, env...)
		said, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		seen, err := Seen(said, own)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	seen := probe(marker, Marker+"=1")
	for _, l := range []result.Layer{result.UserNS, result.MountNS, result.PIDNS, result.NetNS, result.IPCNS, result.UTSNS, result.CgroupNS, result.HiddenFiles, result.CleanEnv} {
		if slices.Contains(seen, l) {
			t.Errorf("on the host it sees %q", l)
		}
	}
	seen = probe("/nonexistent/marker")
	for _, l := range []result.Layer{result.HiddenFiles, result.CleanEnv} {
		if !slices.Contains(seen, l) {
			t.Errorf("it does not see %q", l)
		}
	}
	own["net"] = "net:[1]" // as if we were elsewhere
	if seen = probe(marker); !slices.Contains(seen, result.NetNS) {
		t.Error("it does not see another network namespace")
	}
}

// Whatever runs the probe may say anything.
func TestSeenIsStrict(t *testing.T) {
	own := map[string]string{"net": "net:[1]"}
	for name, said := range map[string]string{
		"nothing":      "",
		"no end":       "ns-net net:[2]\n",
		"no value":     "hello\nend .\n",
		"said twice":   "usr writable\nusr read-only\nend .\n",
		"a flood":      strings.Repeat("x y\n", MaxSaid),
		"binary":       "\x00\xff\nend .\n",
		"another end":  "end of it\n",
		"only the end": "end",
	} {
		if layers, err := Seen([]byte(said), own); err == nil {
			t.Errorf("%s: layers %q", name, layers)
		}
	}
	for name, said := range map[string]string{
		"no namespace":             "ns-net all of them\nend .\n",
		"of another kind":          "ns-net user:[2]\nend .\n",
		"no number":                "ns-net net:[x]\nend .\n",
		"our own":                  "ns-net net:[1]\nend .\n",
		"strict mode":              "Seccomp: 1\nend .\n",
		"capabilities":             "CapEff: 0000000000000001\nend .\n",
		"no capabilities, he says": "CapEff: none\nend .\n",
		"words of no meaning":      "everything yes\nend .\n",
	} {
		if layers, err := Seen([]byte(said), own); err != nil || len(layers) > 0 {
			t.Errorf("%s: layers %q, %v", name, layers, err)
		}
	}
	layers, err := Seen([]byte("ns-net net:[2]\nSeccomp: 2\nNoNewPrivs: 1\nCapEff: 0000000000000000\nusr read-only\nend .\n"), own)
	if want := []result.Layer{result.NetNS, result.Seccomp, result.NoNewPrivs, result.NoCaps, result.ReadOnlyUsr}; err != nil || !slices.Equal(layers, want) {
		t.Errorf("layers %q, %v, want %q", layers, err, want)
	}
}

func FuzzSeen(f *testing.F) {
	f.Add([]byte("ns-net net:[2]\nend .\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		layers, err := Seen(said, map[string]string{})
		if err != nil && layers != nil {
			t.Error("layers and an error")
		}
		if err == nil && !bytes.Contains(said, []byte("end .")) {
			t.Error("believed without an end")
		}
	})
}
