package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/isolate-run/isolate/internal/dirfd"
	"github.com/isolate-run/isolate/internal/testenv"
)

// C 15: 1 KB and 1 MB come whole; 50 MB comes as a file; nothing is cut.
func TestLargeResults(t *testing.T) {
	of := func(name string, n int) Tool { return constant(name, `"`+strings.Repeat("x", n)+`"`) }
	r := newRig(t, Options{TotalResponseBytes: 60 << 20}, of("k", 1<<10), of("m", 1<<20), of("huge", 50<<20))
	for name, n := range map[string]int{"k": 1 << 10, "m": 1 << 20} {
		if a := r.call(name, "{}"); len(a.Result) != n+2 {
			t.Errorf("%s: %d bytes", name, len(a.Result))
		}
	}
	a := r.call("huge", "{}")
	var ref FileRef
	if a.Code != CodeResultTooLarge || a.Class != Failed || json.Unmarshal(a.Details, &ref) != nil || !strings.Contains(a.Error, ref.Path) {
		t.Fatalf("%+v", a)
	}
	info, err := os.Stat(filepath.Join(r.ws, strings.TrimPrefix(ref.Path, "/workspace/")))
	if err != nil || info.Size() != 50<<20+2 || ref.Size != info.Size() || ref.MediaType != "application/json" || len(ref.SHA256) != 64 {
		t.Errorf("%+v, %v", ref, err)
	}
	r.wrongCall("huge", CodeTotalBytes)
	left, err := os.ReadDir(r.ws)
	if err != nil || len(left) != 1 {
		t.Errorf("in the workspace: %v, %v", left, err)
	}
}

func (r *rig) wrongCall(tool string, code Code) {
	r.t.Helper()
	id := r.id()
	r.write(id, request(tool, "{}"))
	r.wrong(id, code)
}

func TestPut(t *testing.T) {
	dir := tempDir(t)
	h, err := dirfd.Open(dir)
	must(t, err)
	defer h.Close()
	for name, ext := range map[string]string{"a.png": ".png", "../../x.json": ".json", "a.b\n": "", "a.verylongone": "", "": "", "x.": "", "a.p/g": "", "a.\u202etxt": ""} {
		ref, err := NewFiles(h, dirfd.Owner{}).Put(t.Context(), name, "image/png", strings.NewReader("data"))
		if err != nil || filepath.Dir(ref.Path) != "/workspace" || filepath.Ext(ref.Path) != ext || ref.Size != 4 ||
			ref.SHA256 != "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7" {
			t.Errorf("%q: %+v, %v", name, ref, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewFiles(h, dirfd.Owner{}).Put(ctx, "late", "", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 8 {
		t.Errorf("%d files", len(left))
	}
}

// Root serves a program that runs as somebody else.
func TestOwner(t *testing.T) {
	testenv.Require(t, testenv.Root)
	const uid = 54321
	dir := tempDir(t)
	must(t, os.Chmod(dir, 0o755))
	h := layout(t, dir)
	for _, f := range []*os.File{h.Flat, h.Req, h.Resp, h.Claim, h.Workspace} {
		must(t, f.Chown(uid, uid))
	}
	h.Owner = dirfd.Owner{UID: uid, GID: uid}
	set, err := NewSet(echo, constant("big", `"`+strings.Repeat("x", 5<<20)+`"`))
	must(t, err)
	b := NewBroker(set, Options{})
	defer b.Close()
	w, err := NewWatcher()
	must(t, err)
	defer w.Close()
	s, err := ServeFiles(w, h, b)
	must(t, err)
	defer s.Close()
	r := &rig{t: t, dir: dir + "/rpc", ws: dir + "/ws", broker: b, server: s}
	write := func(id, tool string) {
		must(t, h.Owner.Do(func() error {
			temp := r.req(id) + ".tmp"
			if err := os.WriteFile(temp, []byte(request(tool, "{}")), 0o600); err != nil {
				return err
			}
			return os.Rename(temp, r.req(id))
		}))
	}
	write("a", "echo")
	if a := r.read("a"); a.Status != "ok" {
		t.Errorf("%+v", a)
	}
	write("b", "big")
	r.wrong("b", CodeResultTooLarge)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
			t.Errorf("%s belongs to %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	must(t, err)
	must(t, os.WriteFile(r.req("c")+".tmp", []byte(request("echo", "{}")), 0o600))
	must(t, os.Chown(r.req("c")+".tmp", 54322, 54322))
	must(t, os.Rename(r.req("c")+".tmp", r.req("c")))
	r.wrong("c", CodeNotRegular)
}
