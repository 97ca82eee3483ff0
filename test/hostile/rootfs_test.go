package hostile

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

var rootfsDenials = []attack{{
	script: "rootfs_links.sh", cases: "A35 B16", layer: byPlan, inTest: "TestRootfsWithLinks",
	attempt: "a root file system whose /proc, /dev, /dev/null, /etc … are links",
	source:  "CVE-2019-19921, CVE-2025-31133, CVE-2026-41579",
	answers: "start: refused, every link named",
}, {
	script: "rootfs_swap.c", cases: "B21", layer: byPlan + "; " + byStart, inTest: "TestRootfsSwapped",
	attempt: "a root file system exchanged for a link while 200 runs start", source: "CVE-2021-30465, CVE-2024-45310",
	answers: "start: that directory or none",
}, {
	script: "rootfs_passwd.sh", cases: "B22", layer: byView, inTest: "TestHugeAccountFiles",
	attempt: "/etc/passwd of two GiB, /etc/group that is /dev/zero", source: "CVE-2026-135844",
	answers: "passwd: generated",
}, {
	script: "rootfs_special.sh", cases: "A51 B14 A54", layer: byMount + "; " + byCaps, inTest: "TestPrivilegedFiles",
	attempt: "setuid, setgid and capable programs, devices in a root file system", source: "bubblewrap tests, seed 000",
	answers: "gain: none\ndevices: EACCES",
}, {
	script: "rootfs_sockets.py", cases: "A9 B73", layer: byView, inTest: "TestSocketsInShownDirectories",
	attempt: "sockets and pipes of the host in a directory that is shown", source: "deepce",
	answers: "socket: ECONNREFUSED\npipe: ENXIO",
}, {
	script: "rootfs_fake.c", cases: "B89", layer: byStart, inTest: "TestPreloaded",
	attempt: "LD_PRELOAD, ld.so.preload, sitecustomize, a shell that is not one", source: "own",
	answers: "where: in the program only, with every layer on",
}}

// prepare runs a script of testdata/escape on the host.
func prepare(t *testing.T, name string, args ...string) {
	t.Helper()
	c := exec.Command("sh", append([]string{filepath.Join("testdata", "escape", name)}, args...)...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// A35: each place alone, and all at once: every link is in the refusal, and
// nothing is made behind one.
func TestRootfsWithLinks(t *testing.T) {
	l := newLab(t)
	base := tempDir(t)
	places := []string{"proc", "dev", "etc", "sys", "tmp", "workspace", "home", "run", "var"}
	sets := [][]string{{"dev/null"}, {"dev/pts"}, {"dev/shm"}, {"dev/ptmx"}, {"dev/null", "dev/pts", "dev/shm", "proc"}, places}
	for _, p := range places {
		sets = append(sets, []string{p})
	}
	for i, set := range sets {
		behind := filepath.Join(base, fmt.Sprint("behind", i))
		if err := os.Mkdir(behind, 0o777); err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(base, fmt.Sprint("root", i))
		prepare(t, "rootfs_links.sh", append([]string{root, behind}, set...)...)
		res, err := l.Run(t.Context(), isolate.Policy{Rootfs: root}, isolate.Cmd{Args: []string{"/bin/true"}})
		if !refused(err) {
			t.Errorf("%v: not refused: %+v, %v", set, res, err)
			continue
		}
		if n := len(err.(*plan.Refusal).Problems); n != len(set) {
			t.Errorf("%v: %d problems, want %d: %v", set, n, len(set), err)
		}
		for _, place := range set {
			if !strings.Contains(err.Error(), `"/`+place+`"`) || !strings.Contains(err.Error(), behind) {
				t.Errorf("%v: the refusal does not name %s and where it leads: %v", set, place, err)
			}
		}
		if made, err := os.ReadDir(behind); err != nil || len(made) > 0 {
			t.Errorf("%v: made behind the link: %v, %v", set, made, err)
		}
	}
	for _, dir := range []string{filepath.Join(base, "absent"), write(t, filepath.Join(base, "file"), "")} {
		if _, err := l.Run(t.Context(), isolate.Policy{Rootfs: dir}, isolate.Cmd{Args: []string{"/bin/true"}}); !refused(err) {
			t.Errorf("%s: not refused: %v", dir, err)
		}
	}
}

// B21: a directory that is exchanged for a link to a forbidden one and back,
// while runs start that have it as root or are shown it. A run has the
// directory that was judged or is refused; it never sees what the link leads
// to, and nothing is made there.
func TestRootfsSwapped(t *testing.T) {
	swap := compiled(t, "testdata/escape/rootfs_swap.c")
	l := newLab(t)
	for _, as := range []string{"root", "bind"} {
		t.Run(as, func(t *testing.T) {
			base := tempDir(t)
			dir := smallRoot(t, filepath.Join(base, "directory"))
			// By its name it is a daemon's socket: no plan takes it.
			trap := smallRoot(t, filepath.Join(base, "trap.sock"))
			write(t, filepath.Join(trap, "secret"), "the secret of the host")
			before := names(t, trap)
			at := filepath.Join(base, "link")
			if err := os.Symlink(trap, at); err != nil {
				t.Fatal(err)
			}
			policyOf := func(i int) isolate.Policy {
				// Another host name is another cell, so each start looks anew.
				p := isolate.Policy{Hostname: fmt.Sprint("start", i), Rootfs: dir}
				if as == "bind" {
					p.Rootfs, p.ReadOnly = "", []isolate.Bind{{Source: dir, Target: "/shown"}}
				}
				return p
			}
			look := isolate.Cmd{Args: []string{"/bin/sh", "-c", "cat /secret /shown/secret; ls / /shown; echo end"}}
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(trap, dir); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Run(t.Context(), policyOf(-1), look); !refused(err) {
				t.Fatalf("the link itself is not refused: %v", err)
			}
			if err := os.Rename(dir+"-away", dir); err == nil {
				t.Fatal("a directory took the place of a link")
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(dir+"-away", dir); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(swap, dir, at)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				c.Process.Kill()
				c.Wait()
			}()
			var ran, refusals, failed, saw int
			// Twice 100 starts, and more where the exchange is slow to meet them.
			for i := 0; i < 100 || i < 1000 && (ran == 0 || refusals+failed == 0); i++ {
				res, err := l.Run(t.Context(), policyOf(i), look)
				switch {
				case refused(err):
					refusals++
				case err != nil:
					failed++
				default:
					ran++
					if strings.Contains(string(res.Stdout.Kept), "secret") {
						saw++
					}
				}
			}
			t.Logf("%d ran, %d were refused, %d failed", ran, refusals, failed)
			if saw > 0 {
				t.Errorf("%d of %d runs saw what the link leads to", saw, ran)
			}
			if ran == 0 || refusals+failed == 0 {
				t.Error("the exchange and the starts did not meet: nothing was shown")
			}
			if after := names(t, trap); !slices.Equal(before, after) {
				t.Errorf("made behind the link: %v, had %v", after, before)
			}
		})
	}
}

// names lists everything below a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// B22: account files of the root file system are hidden by generated ones and
// read by nobody: neither time nor memory of a start depends on them.
func TestHugeAccountFiles(t *testing.T) {
	l := newLab(t)
	root := smallRoot(t, filepath.Join(tempDir(t), "root"))
	prepare(t, "rootfs_passwd.sh", root)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	got := l.shell(t, isolate.Policy{Rootfs: root}, "cat /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf")
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if !strings.Contains(got, "sandbox:x:1000:1000:") || !strings.Contains(got, "127.0.0.1 localhost") || len(got) > 4096 {
		t.Errorf("the account files are %d bytes: %.200q", len(got), got)
	}
	// Reading two GiB takes longer on any machine these tests run on.
	if took > patience/2 {
		t.Errorf("the start took %s", took)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
		t.Errorf("the start allocated %d MiB", used>>20)
	}
}

// A51, B14, A54: setuid, setgid and capable programs gain nothing, devices of
// the root file system cannot be opened.
func TestPrivilegedFiles(t *testing.T) {
	gain := compiled(t, "testdata/escape/priv_ids.c", "-static")
	l := newLab(t)
	root := smallRoot(t, filepath.Join(tempDir(t), "root"))
	prepare(t, "rootfs_special.sh", root, gain)
	if os.Geteuid() == 0 {
		// every capability, permitted and effective: struct vfs_cap_data, version 2
		caps := append([]byte{1, 0, 0, 2}, slices.Repeat([]byte{0xff}, 16)...)
		if err := unix.Setxattr(filepath.Join(root, "bin/gain-caps"), "security.capability", caps, 0); err != nil {
			t.Fatal(err)
		}
	}
	row := privilegeDenials[slices.IndexFunc(privilegeDenials, func(a attack) bool { return a.script == "priv_ids.c" })]
	for _, p := range profiles {
		for _, name := range []string{"gain", "gain-caps"} {
			res := l.run(t, isolate.Policy{Profile: p, Rootfs: root}, isolate.Cmd{Args: []string{"/bin/" + name}})
			compareAnswers(t, row.wanted(p), answersOf(string(res.Stdout.Kept)))
		}
	}
	if os.Geteuid() == 0 {
		got := l.shell(t, isolate.Policy{Rootfs: root}, "for f in /memory /null /disk; do [ -e $f ] || echo $f: absent; if { : <$f; } 2>/dev/null; then echo $f: OPENED; fi; done; exit 0")
		if got != "" {
			t.Errorf("devices of the root file system: %s", got)
		}
	}
}

// A9, B73: a directory that is shown has the host's sockets and pipes as names
// only; nobody can reach the host through them.
func TestSocketsInShownDirectories(t *testing.T) {
	outside.unreached(t)
	l := newLab(t, testenv.Python3)
	base := tempDir(t)
	shown, root := filepath.Join(base, "shown"), smallRoot(t, filepath.Join(base, "root"))
	if err := os.Mkdir(shown, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{shown, root} {
		s, err := net.Listen("unix", filepath.Join(dir, "socket"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		outside.serve(s)
		if err := os.Chmod(filepath.Join(dir, "socket"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "pipe"), 0o666); err != nil {
			t.Fatal(err)
		}
		reader, err := os.OpenFile(filepath.Join(dir, "pipe"), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if n, _ := reader.Read(make([]byte, 1)); n > 0 {
				t.Errorf("the host read from the pipe in %s", dir)
			}
			reader.Close()
		}()
	}
	binds := []isolate.Bind{{Source: shown, Target: "/shown"}}
	for _, p := range profiles {
		res := l.run(t, isolate.Policy{Profile: p, ReadOnly: binds}, script(t, "rootfs_sockets.py", "/shown"))
		compareAnswers(t, answersOf(reachedNothing("/shown")), answersOf(string(res.Stdout.Kept)))
	}
	// the same in a root directory: with the host's Python and what it needs
	binds = append(binds, isolate.Bind{Source: "/usr", Target: "/usr"})
	for _, d := range []string{"/lib", "/lib64"} {
		if fi, err := os.Lstat(d); err == nil && fi.Mode()&os.ModeSymlink != 0 {
			if err := os.RemoveAll(root + d); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("usr"+d, root+d); err != nil {
				t.Fatal(err)
			}
		}
	}
	res := l.run(t, isolate.Policy{Rootfs: root, ReadOnly: binds}, script(t, "rootfs_sockets.py", "/shown", ""))
	compareAnswers(t, answersOf(reachedNothing("/shown")+reachedNothing("")), answersOf(string(res.Stdout.Kept)))
	if len(res.Stderr.Kept) > 0 {
		t.Errorf("%s", res.Stderr.Kept)
	}
}

func reachedNothing(place string) string {
	return fmt.Sprintf("socket in %[1]s: ECONNREFUSED\ndatagram to %[1]s: ECONNREFUSED\npipe in %[1]s: ENXIO\n", place)
}

// B89: what is preloaded by variable, or by a file of the root file system,
// runs in the program only, when every layer is on; a shell of the root file
// system is never run unless it is asked for.
func TestPreloaded(t *testing.T) {
	library := compiled(t, "testdata/escape/rootfs_fake.c")
	l := newLab(t)
	const once = "preloaded, CapEff:\t0000000000000000\npreloaded, CapBnd:\t0000000000000000\npreloaded, NoNewPrivs:\t1\npreloaded, Seccomp:\t2\n"
	res := l.run(t, isolate.Policy{}, isolate.Cmd{
		Args: []string{"/bin/true"}, In: []isolate.Input{{Source: library}}, Env: map[string]string{"LD_PRELOAD": "/workspace/rootfs_fake"},
	})
	if got := string(res.Stderr.Kept); got != once {
		t.Errorf("by variable: %q, want %q", got, once)
	}
	root := smallRoot(t, filepath.Join(tempDir(t), "root"))
	b, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "fake.so"), string(b))
	write(t, filepath.Join(root, "etc/ld.so.preload"), "/fake.so\n")
	if err := os.Remove(filepath.Join(root, "bin/sh")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "bin/sh"), "#!/bin/cat\nthis is no shell\n")
	if err := os.Chmod(filepath.Join(root, "bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	res = l.run(t, isolate.Policy{Rootfs: root}, isolate.Cmd{Args: []string{"/bin/true"}})
	if got := string(res.Stderr.Kept); got != once || res.ExitCode != 0 {
		t.Errorf("by a file: %q, code %d, want %q", got, res.ExitCode, once)
	}
	res = l.run(t, isolate.Policy{Rootfs: root}, isolate.Cmd{Args: []string{"sh"}})
	if !strings.Contains(string(res.Stdout.Kept), "this is no shell") {
		t.Errorf("the shell that was asked for printed %q", res.Stdout.Kept)
	}
	// modules of Python that run by themselves
	testenv.Require(t, testenv.Python3)
	dir := tempDir(t)
	evil := write(t, filepath.Join(dir, "sitecustomize.py"), "print('customized')\n")
	res = l.run(t, isolate.Policy{Profile: policy.ProfileDefault}, isolate.Cmd{
		Args: []string{"/usr/bin/python3", "-c", "print('program')"}, In: []isolate.Input{{Source: evil}},
		Env: map[string]string{"PYTHONPATH": "/workspace", "PATH": "/workspace:/usr/bin"},
	})
	if got := string(res.Stdout.Kept); got != "customized\nprogram\n" {
		t.Errorf("Python printed %q", got)
	}
}
