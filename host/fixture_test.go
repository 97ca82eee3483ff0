package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// A state is a machine as files: testdata/states/NAME.txtar laid over
// ready.txtar, with what no file says in kernel.json and options.json.

// told is a Kernel that answers what a state tells it to.
type told struct {
	root string

	Release  string           `json:"release"`
	Errors   map[string]Errno `json:"errors"`
	Landlock int              `json:"landlock"`

	Owned []string          `json:"owned"` // the user's own, with all below
	Modes map[string]string `json:"modes"`
	Links []string          `json:"links"`
	UIDs  map[string]int    `json:"uids"`
	Free  uint64            `json:"free"`

	Fail         map[string]Finding  `json:"fail"`
	Needs        string              `json:"needs"` // every probe of the cell was not tried because of it
	Skip         map[string]string   `json:"skip"`  // this probe because of that
	ControlFiles map[string][]string `json:"control_files"`
	Silent       []string            `json:"silent"` // probes that give no answer
	Err          string              `json:"err"`

	uid   int
	asked Ask
}

func (k *told) Calls() Calls {
	c := Calls{Release: k.Release, Errors: map[string]Errno{}, Landlock: k.Landlock}
	for name, e := range k.Errors {
		if e != 0 { // one state can take back what another says
			c.Errors[name] = e
		}
	}
	return c
}

func (k *told) File(path string) (File, error) {
	logical := "/" + strings.TrimPrefix(strings.TrimPrefix(path, k.root), "/")
	st, err := os.Lstat(path)
	if err != nil {
		return File{}, &fs.PathError{Op: "lstat", Path: logical, Err: fs.ErrNotExist}
	}
	f := File{Mode: 0o755 | st.Mode().Type(), Write: errnoOf(errEACCES), Free: k.Free}
	for _, own := range k.Owned {
		if _, ok := below(own, logical); ok {
			f.UID, f.Write = k.uid, 0
		}
	}
	if m, ok := k.Modes[logical]; ok {
		n, err := strconv.ParseUint(m, 8, 32)
		if err != nil {
			return File{}, err
		}
		f.Mode = fs.FileMode(n&0o777) | st.Mode().Type()
		if n&0o1000 != 0 {
			f.Mode |= fs.ModeSticky
		}
		if n&0o002 != 0 {
			f.Write = 0
		}
	}
	for _, l := range k.Links {
		if l == logical {
			f.Mode = fs.ModeSymlink | 0o777
		}
	}
	if u, ok := k.UIDs[logical]; ok {
		f.UID = u
	}
	return f, nil
}

func (k *told) Child(_ context.Context, a Ask) Answer {
	k.asked = a
	ans := Answer{Err: k.Err}
	probes := append([]string{"memfd.exec", "userns.create", "kernel.seccomp-notify"}, cellProbes...)
	if a.Mapping != nil {
		probes = append(probes, "identity.map")
	}
	for _, g := range a.Cgroups {
		probes = append(probes, g.Probe)
	}
	silent := strings.Join(k.Silent, " ")
	for _, p := range probes {
		f, failed := k.Fail[p]
		if !failed {
			f.Step = "everything"
			f.Needs = k.Skip[p]
			if k.Needs != "" && strings.Contains(strings.Join(cellProbes, " "), p) {
				f.Needs = k.Needs
			}
			f.Files = k.ControlFiles[p]
		}
		f.Probe = p
		if !strings.Contains(silent, p) {
			ans.Findings = append(ans.Findings, f)
		}
	}
	return ans
}

// optionsFile is what a state says of the Options.
type optionsFile struct {
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Env        map[string]string `json:"env"`
	Rootfs     string            `json:"rootfs"`
	RuntimeDir string            `json:"runtime_dir"`
	Syscalls   []string          `json:"syscalls"`
	Libseccomp *Libseccomp       `json:"libseccomp"`
	AuditLog   string            `json:"audit_log"`
	AuditKey   string            `json:"audit_key"`
	NetHelper  string            `json:"net_helper"`
	Anchor     string            `json:"anchor"` // "ok", an error, or empty for none
}

// loadState unpacks a state and what is laid over it.
func loadState(t *testing.T, name string, over ...*txtar.Archive) (Options, *told) {
	t.Helper()
	layers := []*txtar.Archive{parseState(t, "ready")}
	if name != "ready" {
		layers = append(layers, parseState(t, name))
	}
	k := &told{root: treeDir(t)}
	var of optionsFile
	for _, a := range append(layers, over...) {
		for _, f := range a.Files {
			var err error
			switch f.Name {
			case "kernel.json":
				err = strict(f.Data, k)
			case "options.json":
				of = optionsFile{}
				err = strict(f.Data, &of)
			case "delete":
				for _, p := range strings.Fields(string(f.Data)) {
					if err := os.RemoveAll(filepath.Join(k.root, p)); err != nil {
						t.Fatal(err)
					}
				}
			default:
				path := filepath.Join(k.root, f.Name)
				if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
					err = os.WriteFile(path, f.Data, 0o644)
				}
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", name, f.Name, err)
			}
		}
	}
	k.uid = of.UID
	o := Options{
		Root: k.root, UID: of.UID, GID: of.GID, Getenv: func(n string) string { return of.Env[n] },
		Rootfs: of.Rootfs, RuntimeDir: of.RuntimeDir, Syscalls: of.Syscalls, Libseccomp: of.Libseccomp, NetHelper: of.NetHelper, Kernel: k,
	}
	if of.AuditLog != "" {
		o.Audit = &Audit{Log: of.AuditLog, Key: of.AuditKey}
		if of.Anchor != "" {
			o.Audit.Anchor = func(context.Context) error {
				if of.Anchor != "ok" {
					return fmt.Errorf("%s", of.Anchor)
				}
				return nil
			}
		}
	}
	return o, k
}

// treeDir is a directory in memory if there is one: a hundred trees of seventy
// files are slow on a disk.
func treeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "isolate-host-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func parseState(t *testing.T, name string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "states", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func strict(b []byte, to any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// golden compares with a file below testdata/golden; -update rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run go test ./host -update and review\n%s", path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, a, b)
		}
	}
	return ""
}
