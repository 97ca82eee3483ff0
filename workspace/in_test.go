package workspace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// in copies inputs into a fresh directory and holds the manifest against it.
func in(t testing.TB, lim Limits, inputs ...Input) (Manifest, string) {
	t.Helper()
	ws := tempDir(t)
	m, err := CopyIn(t.Context(), handle(t, ws), inputs, lim)
	must(t, err)
	compare(t, ws, m)
	return m, ws
}

func TestCopyIn(t *testing.T) {
	src := tempDir(t)
	put(t, src+"/data.csv", "a,b\n", 0o664)
	put(t, src+"/tool", "#!/bin/sh\n", 0o4775)
	must(t, os.Chmod(src+"/tool", 0o775|os.ModeSetuid))
	put(t, src+"/project/main.py", "print()\n", 0o600)
	put(t, src+"/project/pkg/mod.py", "", 0o444)
	must(t, os.Chmod(src+"/project/pkg", 0o500))
	t.Cleanup(func() { os.Chmod(src+"/project/pkg", 0o700) })
	must(t, os.Mkdir(src+"/project/empty", 0o777))
	must(t, os.Symlink("project", src+"/alias"))
	must(t, os.Symlink("data.csv", src+"/alias.csv"))

	m, ws := in(t, Limits{},
		Input{Source: src + "/data.csv"},
		Input{Source: src + "/data.csv", Target: "in/deep/er.csv"},
		Input{Source: src + "/tool", Target: "bin/tool"},
		Input{Source: src + "/alias"},                           // a directory: the workspace itself
		Input{Source: src + "/alias/", Target: "copy"},          // through a link, as everywhere
		Input{Source: src + "/alias.csv", Target: "alias/file"}, // a link to a file: the file
	)
	for rel, want := range map[string]string{
		"data.csv": "0644", "in/deep/er.csv": "0644", "bin/tool": "0755", "main.py": "0600", "pkg/mod.py": "0444",
		"copy/main.py": "0600", "copy/pkg/mod.py": "0444", "alias/file": "0644",
	} {
		if e, ok := find(m.Files, rel); !ok || e.Mode != want {
			t.Errorf("%q: copied %v, mode %s, want %s", rel, ok, e.Mode, want)
		}
	}
	if len(m.Files) != 8 || len(m.Skipped) != 0 || m.Dirs != 9 {
		t.Errorf("%d files, %d directories, skipped %v", len(m.Files), m.Dirs, m.Skipped)
	}
	if e, _ := find(m.Files, "bin/tool"); !strings.Contains(e.Why, "setuid") {
		t.Errorf("tool: %q", e.Why)
	}
	if info, _ := os.Stat(ws + "/pkg"); info.Mode().Perm() != 0o700 {
		t.Errorf("pkg has mode %v: its owner cannot use it", info.Mode())
	}
	if m, _ := in(t, Limits{}); m.Files == nil || len(m.Files) != 0 {
		t.Errorf("no inputs: %+v", m)
	}
}

// What is in a source directory and is no plain file.
func TestCopyInDirectory(t *testing.T) {
	top := tempDir(t)
	src := top + "/src"
	put(t, top+"/secret", "canary", 0o644)
	put(t, top+"/src-evil/f", "canary", 0o644)
	put(t, src+"/d/f", "f", 0o644)
	must(t, os.Link(src+"/d/f", src+"/hard"))
	put(t, src+"/_rpc/req_1.json", "{}", 0o644)
	put(t, src+"/d/_rpc", "mine", 0o644)
	put(t, src+"/bad\nname", "x", 0o644)
	must(t, unix.Mkfifo(src+"/fifo", 0o644))
	l, err := net.Listen("unix", src+"/sock")
	must(t, err)
	defer l.Close()
	good := map[string]string{
		"l1": "d/f", "d/l2": "../hard", "d/l3": "f", "l4": "d", "l5": ".", "l6": "missing", "d/l7": "../d/./f", "l8": "d//f", "d/l9": "..",
	}
	bad := map[string]string{
		"b1": "/etc/passwd", "b2": "../secret", "d/b3": "../../secret", "b4": "..", "b5": "d/../../secret",
		"b6": "../src-evil/f", "b7": "../src/d/f", "b8": "bad\x1b[31m", "b9": "\xff",
		"d/b10": "/etc/passwd",
	}
	for _, links := range []map[string]string{good, bad} {
		for rel, text := range links {
			must(t, os.Symlink(text, src+"/"+rel))
		}
	}
	put(t, src+"/unreadable", "x", 0)
	put(t, src+"/listed/f", "x", 0o644) // names can be read, files cannot
	must(t, os.Chmod(src+"/listed", 0o444))
	t.Cleanup(func() { os.Chmod(src+"/listed", 0o700) })

	m, ws := in(t, Limits{}, Input{Source: src})
	for rel, text := range good {
		if got, err := os.Readlink(ws + "/" + rel); got != text {
			t.Errorf("link %q: %q, %v", rel, got, err)
		}
	}
	for rel := range bad {
		skipped(t, m, rel, "symbolic link")
	}
	for rel, why := range map[string]string{
		"fifo": "FIFO", "sock": "socket", `bad\nname`: "control", "_rpc": "bridge",
	} {
		skipped(t, m, rel, why)
	}
	left := len(bad) + 4
	if os.Geteuid() != 0 {
		skipped(t, m, "unreadable", "may not be read")
		skipped(t, m, "listed/f", "may not be read")
		left += 2
	}
	if len(m.Skipped) != left {
		t.Errorf("%d skipped, want %d: %+v", len(m.Skipped), left, m.Skipped)
	}
	for _, rel := range []string{"d/f", "hard", "d/_rpc"} {
		var st unix.Stat_t
		if err := unix.Lstat(ws+"/"+rel, &st); err != nil || st.Nlink != 1 {
			t.Errorf("%q: %d links, %v", rel, st.Nlink, err)
		}
	}
	noCanary(t, ws)
}

// Every fault of every input is told at once, with what to do, and nothing is
// copied (case A 31, CVE-2026-39822, go-judge 5c5e788).
func TestCheckInputs(t *testing.T) {
	src := tempDir(t)
	put(t, src+"/f", "x", 0o644)
	put(t, src+"/esc\x1b[2J", "x", 0o644)
	put(t, src+"/d/f", "x", 0o644)
	must(t, unix.Mkfifo(src+"/fifo", 0o644))
	must(t, os.Symlink("fifo", src+"/to-fifo"))
	must(t, os.Symlink("nowhere", src+"/dangling"))
	l, err := net.Listen("unix", src+"/sock")
	must(t, err)
	defer l.Close()
	f, d := src+"/f", src+"/d"

	cases := []struct {
		in           Input
		rule, remedy string
	}{
		{Input{f, "../x"}, `".."`, "below /workspace"},
		{Input{f, "a/../../x"}, `".."`, "below /workspace"},
		{Input{f, "../workspace-evil/x"}, `".."`, "below /workspace"},
		{Input{f, "/workspace/x"}, "absolute", `"x"`},
		{Input{f, "/workspace-evil/x"}, "absolute", "below /workspace"},
		{Input{f, "/etc/passwd"}, "absolute", "below /workspace"},
		{Input{f, "link/"}, "slash", `"link"`},
		{Input{f, "a//b"}, "empty component", "below /workspace"},
		{Input{f, "."}, `"."`, "below /workspace"},
		{Input{d, ".."}, `".."`, "below /workspace"},
		{Input{f, "a\x00b"}, "control", "below /workspace"},
		{Input{f, "\xff"}, "UTF-8", "below /workspace"},
		{Input{f, "_rpc/req_1.json"}, "bridge", "below /workspace"},
		{Input{d, "_rpc"}, "bridge", "below /workspace"},
		{Input{src + "/esc\x1b[2J", ""}, "control", "give it a target"},
		{Input{"", "x"}, "source is empty", "file or directory"},
		{Input{src + "/absent", "x"}, "does not exist", "file or directory"},
		{Input{src + "/f/x", "x"}, "not a directory", "file or directory"},
		{Input{src + "/dangling", "x"}, "link to nothing", "file or directory"},
		{Input{src + "/fifo", "x"}, "FIFO", "standard input"},
		{Input{src + "/to-fifo", "x"}, "FIFO", "standard input"},
		{Input{src + "/sock", "x"}, "socket", "file first"},
		{Input{os.DevNull, "x"}, "device", "file first"},
		{Input{src + "/absent\x1b", "../both"}, "does not exist", "file or directory"},
		{Input{f, "ok"}, "", ""},
		{Input{f, "ok"}, "another input has that place", "another target"},
		{Input{f, "ok/below"}, "needs a directory", "another target"},
		{Input{d, "ok"}, "another input has that place", "another target"},
		{Input{d, "dir"}, "", ""},
		{Input{d, "dir"}, "", ""}, // directories are merged
		{Input{f, "dir/f2"}, "", ""},
		{Input{f, "dir"}, "another input has that place", "another target"},
		{Input{f, "p/q/r"}, "", ""},
		{Input{f, "p/q"}, "another input has that place", "another target"},
		{Input{f, "p/q-evil"}, "", ""},
	}
	if os.Geteuid() != 0 {
		put(t, src+"/secret", "x", 0)
		cases = append(cases, struct {
			in           Input
			rule, remedy string
		}{Input{src + "/secret", ""}, "may not be read", "can read"})
	}
	var inputs []Input
	var want []string
	for _, c := range cases {
		inputs = append(inputs, c.in)
		if c.rule != "" {
			want = append(want, c.rule+"\x00"+c.remedy)
		}
		if c.in.Target == "../both" {
			want = append(want, `".."`+"\x00"+"below /workspace")
		}
	}
	begin := time.Now()
	got := CheckInputs(inputs)
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d: %q", len(got), len(want), got)
	}
	for i, p := range got[:min(len(got), len(want))] {
		rule, remedy, _ := strings.Cut(want[i], "\x00")
		if !strings.Contains(p.Rule, rule) || !strings.Contains(p.Remedy, remedy) || !strings.HasPrefix(p.What, "cannot copy ") {
			t.Errorf("problem %d is %q, want rule %q, remedy %q", i, p, rule, remedy)
		}
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}

	ws := tempDir(t)
	m, err := CopyIn(t.Context(), handle(t, ws), inputs, Limits{})
	var r *Refusal
	if !errors.As(err, &r) || len(r.Problems) != len(want) || len(m.Files) != 0 {
		t.Errorf("CopyIn: %v", err)
	}
	if strings.ContainsAny(err.Error(), "\x00\x1b") || !utf8.ValidString(err.Error()) {
		t.Errorf("the text is not fit for a terminal: %q", err)
	}
	if names, _ := os.ReadDir(ws); len(names) != 0 {
		t.Errorf("%v was copied", names)
	}
}

func TestCopyInOverLimits(t *testing.T) {
	src := tempDir(t)
	put(t, src+"/d/a", strings.Repeat("a", 100), 0o644)
	put(t, src+"/d/b/c/f", strings.Repeat("b", 100), 0o644)
	for lim, want := range map[Limits]string{
		{MaxBytes: 199}: "raise it with --disk", {MaxFile: 99}: "limit of one file",
		{MaxFiles: 4}: "more than 4 entries", {MaxDepth: 1}: "deeper than 1", {MaxBytes: -1}: "negative",
	} {
		_, err := CopyIn(t.Context(), handle(t, tempDir(t)), []Input{{Source: src}}, lim)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", lim, err, want)
		}
		if errors.Is(err, ErrLimit) != (want != "negative") {
			t.Errorf("%+v: whether %v is of a limit is not told", lim, err)
		}
	}
	in(t, Limits{MaxBytes: 200, MaxFile: 100, MaxFiles: 5, MaxDepth: 3}, Input{Source: src})
	if m, _ := in(t, Limits{MaxName: 1}, Input{Source: src + "/d", Target: "long/enough"}); len(m.Skipped) != 0 {
		t.Errorf("%+v", m.Skipped)
	}
}

func TestCopyInHoldsWorkspace(t *testing.T) {
	top := tempDir(t)
	ws := top + "/a/b/ws"
	must(t, os.MkdirAll(ws, 0o755))
	put(t, top+"/a/f", "x", 0o644)
	must(t, os.Symlink("a/b", top+"/door"))
	for _, src := range []string{top, top + "/a", top + "/door", ws, "/"} {
		_, err := CopyIn(t.Context(), handle(t, ws), []Input{{Source: top + "/a/f"}, {Source: src, Target: "t"}}, Limits{})
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(err.Error(), "the workspace lies in it") {
			t.Errorf("%s: %v", src, err)
		}
	}
	if names, _ := os.ReadDir(ws); len(names) != 0 {
		t.Errorf("%v was copied", names)
	}
}

// A full workspace says which limit it met and what raises it; nothing is left
// under the name of a file that did not fit.
func TestCopyInFull(t *testing.T) {
	src := tempDir(t)
	put(t, src+"/big", strings.Repeat("x", 3<<20), 0o644)
	ws := sandboxTree(t)
	m, err := CopyIn(t.Context(), handle(t, ws), []Input{{Source: src}}, Limits{})
	if !errors.Is(err, unix.ENOSPC) || !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "its disk limit is 1 MiB; raise it with --disk") {
		t.Errorf("%v", err)
	}
	if names, _ := os.ReadDir(ws); len(names) != 2 || len(m.Files) != 0 {
		t.Errorf("%v in the workspace, %+v", names, m.Files)
	}
	for i := range 100 {
		put(t, fmt.Sprintf("%s/many/%d", src, i), "", 0o644)
	}
	m, err = CopyIn(t.Context(), handle(t, ws), []Input{{Source: src + "/many"}}, Limits{})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "limit of 64 files") || !strings.Contains(err.Error(), "--inodes") {
		t.Errorf("%v", err)
	}
	for _, e := range m.Files {
		if info, err := os.Lstat(ws + "/" + e.Path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%q is listed: %v", e.Path, err)
		}
	}
}

// A copy into a sandbox that lives: what is there is replaced, not followed,
// and directories that became links are an error.
func TestCopyInReplaces(t *testing.T) {
	top := tempDir(t)
	ws := top + "/ws"
	put(t, top+"/new", "new", 0o644)
	put(t, top+"/victim", "canary", 0o644)
	put(t, top+"/elsewhere/f", "canary", 0o644)
	put(t, ws+"/file", "old", 0o600)
	must(t, os.Symlink("../victim", ws+"/link"))
	must(t, os.Link(top+"/victim", ws+"/hard"))
	must(t, unix.Mkfifo(ws+"/fifo", 0o644))
	must(t, os.Symlink("../elsewhere", ws+"/dir"))
	must(t, os.Mkdir(ws+"/full", 0o755))
	for _, name := range []string{"file", "link", "hard", "fifo"} {
		_, err := CopyIn(t.Context(), handle(t, ws), []Input{{top + "/new", name}}, Limits{})
		must(t, err)
		if info, _ := os.Lstat(ws + "/" + name); !info.Mode().IsRegular() || text(t, ws+"/"+name) != "new" {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
	for target, why := range map[string]string{"dir/f": "in the way", "dir/sub/f": "in the way", "file/f": "in the way", "full": "cannot write"} {
		_, err := CopyIn(t.Context(), handle(t, ws), []Input{{top + "/new", target}}, Limits{})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", target, err, why)
		}
	}
	if text(t, top+"/victim") != "canary" || text(t, top+"/elsewhere/f") != "canary" {
		t.Error("a file outside was changed")
	}
	if names, _ := os.ReadDir(top + "/elsewhere"); len(names) != 1 {
		t.Errorf("%v was made outside", names)
	}
	if names, _ := filepath.Glob(ws + "/.isolate-*"); len(names) != 0 {
		t.Errorf("%v is left", names)
	}
}

// Two directories with the same file: neither wins unseen.
func TestCopyInSameFileTwice(t *testing.T) {
	src := tempDir(t)
	put(t, src+"/a/f", "a", 0o644)
	put(t, src+"/b/f", "b", 0o644)
	ws := tempDir(t)
	m, err := CopyIn(t.Context(), handle(t, ws), []Input{{Source: src + "/a"}, {Source: src + "/b"}}, Limits{})
	if err == nil || !strings.Contains(err.Error(), "another input put a file") {
		t.Errorf("%v", err)
	}
	compare(t, ws, m)
	if text(t, ws+"/f") != "a" {
		t.Error("the second input won")
	}
}

// A program that swaps the target's directory for a link to the outside while
// files are copied in: nothing appears outside (CVE-2021-30465).
func TestCopyInSwapped(t *testing.T) {
	top := tempDir(t)
	put(t, top+"/src/sub/f", "new", 0o644)
	must(t, os.MkdirAll(top+"/outside/sub", 0o755))
	must(t, os.MkdirAll(top+"/ws/d/sub", 0o755))
	must(t, os.Symlink("../outside", top+"/ws/other"))
	swapping(t, top+"/ws", "d", "other")
	dir := handle(t, top+"/ws")
	worked, failed := 0, 0
	for range rounds() {
		_, err := CopyIn(t.Context(), dir, []Input{{top + "/src", "d"}}, Limits{})
		switch {
		case err == nil:
			worked++
		case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EEXIST):
			failed++
		default:
			t.Fatal(err)
		}
	}
	if worked == 0 || failed == 0 {
		t.Errorf("%d copies worked, %d failed: both should happen", worked, failed)
	}
	if names, _ := filepath.Glob(top + "/outside/sub/*"); len(names) != 0 {
		t.Errorf("%v was made outside", names)
	}
}

// Files of /proc say that they are empty; that is not passed over in silence.
func TestCopyInProc(t *testing.T) {
	m, _ := in(t, Limits{}, Input{Source: "/proc/self/status"})
	if len(m.Files) != 1 || !strings.Contains(m.Files[0].Why, "cut at the size") {
		t.Errorf("%+v", m.Files)
	}
}

// What goes in comes out.
func TestRoundTrip(t *testing.T) {
	src := tempDir(t)
	for i := range 50 {
		put(t, fmt.Sprintf("%s/%d/%d/f", src, i%7, i), strings.Repeat(fmt.Sprint(i), i*i), 0o644)
	}
	into, ws := in(t, Limits{}, Input{Source: src})
	back, _ := out(t, ws, Limits{})
	if fmt.Sprint(into.Files) != fmt.Sprint(back.Files) || into.Dirs != back.Dirs || into.Bytes != back.Bytes {
		t.Errorf("in %+v\nout %+v", into, back)
	}
}
