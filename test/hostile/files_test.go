package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

var filesDenials = []attack{{
	script: "files_readonly.c", cases: "B16 A37", layer: byMount,
	attempt: "making, changing, removing and renaming system files, devices and stand-ins",
	source:  "runc mask.bats, CDK mount-*",
	answers: `
		a new file in /: EROFS
		a new file in /usr/bin: EROFS
		a new file in /etc: EROFS
		a new file in /dev: EROFS
		a new file in /run: EROFS
		a new file in /home: EROFS
		a new file in /sys: EROFS
		a new file in /proc: ENOENT
		a new directory in /var: EROFS
		writing /etc/passwd: EROFS
		writing /etc/ld.so.cache: EROFS
		writing /usr/bin/env: EACCES
		cutting /etc/passwd: EROFS
		removing /usr/bin/env: EROFS
		removing /etc/passwd: EROFS
		removing /dev/null: EROFS
		removing a mount point: EROFS
		renaming /etc: EXDEV
		renaming the workspace: EROFS
		a link to /usr/bin/env in the workspace: EXDEV
		a symbolic link in /etc: EROFS
		mode of /etc/passwd: EROFS
		mode of /: EROFS
		mode of /usr/bin/env: EROFS
		mode of /dev/null: EPERM
		times of /etc/passwd: EROFS
		owner of /etc/passwd: EROFS
		writing the stand-in of cpuinfo: EACCES
		mode of the stand-in of cpuinfo: EROFS
		writing the directory of stand-ins: EROFS
		writing the cover of directories: EROFS`,
	strict: `
		cutting /etc/passwd: ENOSYS
		writing the stand-in of cpuinfo: ENOENT
		mode of the stand-in of cpuinfo: ENOENT`,
}, {
	script: "files_splice.c", cases: "B33", layer: byRecorder,
	attempt: "AF_ALG, splice, tee, vmsplice, sendfile from a read-only file",
	source:  "CVE-2026-31431, CVE-2026-43284, CVE-2026-46331",
	answers: `
		AF_ALG socket: EAFNOSUPPORT
		AF_ALG socket, close on exec: EAFNOSUPPORT
		AF_RXRPC socket: EAFNOSUPPORT
		xfrm by netlink: EAFNOSUPPORT
		splice from a file of the root: EINVAL
		splice between pipes: EINVAL
		tee: EINVAL
		vmsplice: EINVAL
		sendfile: ok
		writing after it: ok
		the file: unchanged`,
	strict:   "sendfile: EINVAL",
	recorded: map[string]int64{"socket": 4},
}, {
	script: "files_attributes.c", cases: "A50 B33", layer: byFilter,
	attempt: "extended attributes, FICLONE, inode flags, verity, handles of parent namespaces",
	source:  "CVE-2026-64600, flatpak",
	answers: `
		setxattr security.capability: EOPNOTSUPP
		setxattr user.x: EOPNOTSUPP
		setxattr trusted.overlay.opaque: EOPNOTSUPP
		lsetxattr: EOPNOTSUPP
		fsetxattr: EOPNOTSUPP
		removexattr: EOPNOTSUPP
		FICLONE: ENOTTY
		FICLONE with an upper half: ENOTTY
		FICLONERANGE: ENOTTY
		FIDEDUPERANGE: ENOTTY
		FS_IOC_SETFLAGS: ENOTTY
		FS_IOC_GETFLAGS: ENOTTY
		FIFREEZE: ENOTTY
		FITRIM: ENOTTY
		FS_IOC_ENABLE_VERITY: ENOTTY
		NS_GET_PARENT: ENOTTY
		NS_GET_USERNS: ENOTTY`,
}, {
	script: "files_exec.c", cases: "B14 A51", layer: byMount,
	says:    "`EACCES`, no gain",
	attempt: "executing from shared memory, setuid files of its own", source: "bubblewrap tests",
	answers: `
		exec in /dev/shm: EACCES
		exec in /tmp: ok
		exec of an own setuid file, no gain: ok
		exec of a mapping from /dev/shm: EPERM
		/: ro,nosuid,nodev
		/usr: ro,nosuid,nodev
		/etc: ro,nosuid,nodev
		/workspace: rw,nosuid,nodev
		/tmp: rw,nosuid,nodev
		/dev/shm: rw,nosuid,nodev,noexec
		/home/sandbox: rw,nosuid,nodev
		/proc: rw,nosuid,nodev,noexec`,
}, {
	script: "files_host.sh", cases: "B31 A9", layer: byView,
	says:    "absent or empty",
	attempt: "secrets, homes, daemons' and system directories of the host", source: "deepce",
	args: func(t *testing.T) []string {
		dir := tempDir(t)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		return []string{write(t, filepath.Join(dir, "secret"), "secret"), abs(t, "hostile_test.go"), "/etc/fstab", outside.path}
	},
	answers: `
		canary 1: absent
		canary 2: absent
		canary 3: absent
		canary 4: absent` + absent(`/etc/shadow /etc/gshadow /etc/ssh /etc/sudoers /etc/docker /etc/kubernetes /boot /lost+found
		/host /rootfs /var/lib /var/run/docker.sock /var/log /var/spool /run/secrets /run/user /run/systemd /root/.ssh
		/root/.bashrc /.dockerenv /etc/hostid /etc/fstab /etc/crontab /etc/systemd`) + `
		entries of /root: 0
		entries of /run: 0
		entries of /var/tmp: 0
		entries of /opt: 0
		entries of /mnt: 0
		entries of /srv: 0
		entries of /tmp: 0
		entries of /home/sandbox: 0
		homes: sandbox`,
}, {
	script: "files_output.py", cases: "A29 A30 A31", layer: byCopy, inTest: "TestOutput",
	attempt: "links to secrets, pipes, sockets, setuid files, odd names in the output",
	source:  "go-judge #176, compiler-explorer #6026, CVE-2026-39822",
	answers: "links, pipes, sockets, hard links: left out and listed\nsetuid: bit removed and listed",
}, {
	script: "files_left.c", cases: "A43", layer: byView + "; " + byIPCNS + "; " + byPIDNS, inTest: "TestNothingIsLeft",
	attempt: "files, shared memory, queues, sockets and processes left for the next run",
	source:  "piston file_persistance, isolate 2.6, sunwalker ipc",
	answers: "files: ENOENT\nIPC: ENOENT\nabstract socket: ECONNREFUSED\nprocesses: none",
}}

func absent(paths string) string {
	var b strings.Builder
	for _, p := range strings.Fields(paths) {
		b.WriteString("\n" + p + ": absent")
	}
	return b.String()
}

func TestFiles(t *testing.T) { runDenials(t, filesDenials) }

// A29, A30, A31: of a workspace made to fool the copy only plain files and
// directories arrive, no byte of a host file among them, and everything else
// is listed with its reason.
func TestOutput(t *testing.T) {
	l := newLab(t)
	dir := tempDir(t)
	secret := write(t, filepath.Join(dir, "secret"), "the secret of the host")
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			out := filepath.Join(dir, "out-"+p.String())
			c := script(t, "files_output.py", secret)
			c.Out = out
			res := l.run(t, isolate.Policy{Profile: p}, c)
			if got := string(res.Stdout.Kept); got != "made: ok\n" {
				t.Fatalf("%s%s", got, res.Stderr.Kept)
			}
			skipped := map[string]isolate.Manifest{}
			for _, e := range res.Out.Skipped {
				skipped[e.Path] = isolate.Manifest{}
				if e.Why == "" {
					t.Errorf("%s is left out without a reason", e.Path)
				}
				if e.Path == "link" && e.Link != secret {
					t.Errorf("the text of the link is %q", e.Link)
				}
			}
			must := []string{"link", "link-passwd", "link-environ", "link-up", "link-good", "directory-link", "directory/loop", "good", "hard", "socket"}
			if p != policy.ProfileStrict {
				must = append(must, "pipe")
			}
			for _, name := range must {
				if _, ok := skipped[name]; !ok {
					t.Errorf("%s is not among what was left out", name)
				}
				if _, err := os.Lstat(filepath.Join(out, name)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s was copied: %v", name, err)
				}
			}
			onlyPlainFiles(t, out, "the secret of the host")
			if b, err := os.ReadFile(filepath.Join(out, "plain")); err != nil || string(b) != "plain\n" {
				t.Errorf("the plain file is %q, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(out, "directory/inner")); err != nil || string(b) != "inner\n" {
				t.Errorf("the file in a directory is %q, %v", b, err)
			}
		})
	}
}

// onlyPlainFiles checks a directory that was copied out of a sandbox.
func onlyPlainFiles(t *testing.T, out, secret string) {
	t.Helper()
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if m := fi.Mode(); !m.IsRegular() && !m.IsDir() || m&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			t.Errorf("%q came out as %v", path, m)
		}
		if strings.ContainsAny(d.Name(), "\n\x1b") {
			t.Errorf("the name %q came out", d.Name())
		}
		if strings.HasSuffix(path, ".git/hooks/post-checkout") && fi.Mode()&0o111 != 0 {
			t.Errorf("a git hook came out executable")
		}
		if fi.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(b), secret) {
				t.Errorf("%q has the secret", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A31: names that lead out of the workspace or of the output directory.
func TestNames(t *testing.T) {
	l := newLab(t)
	dir := tempDir(t)
	file := write(t, filepath.Join(dir, "file"), "x")
	for _, target := range []string{"../x", "/etc/x", "a/../../x", "..", "a/..", "./x", "a//b", "x/", "_rpc/x", "a\x00b", "/workspace-evil/x"} {
		ran, err := l.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"true"}, In: []isolate.Input{{Source: file, Target: target}}})
		if err == nil {
			t.Errorf("input as %q was taken: %+v", target, ran.In)
		}
	}
	// The program turned the place into a link to somewhere else.
	s, err := l.Sandbox(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"/bin/sh", "-c", "ln -s /tmp out; ln -s ../../../../../../../../" + dir + " up; ln -s /proc/self/root root; mkfifo pipe; ln -s " + file + " replaced"}}); err != nil || res.ExitCode != 0 {
		t.Fatal(res, err)
	}
	for _, target := range []string{"out/x", "up/x", "root/x", "pipe/x"} {
		if m, err := s.CopyIn(t.Context(), []isolate.Input{{Source: file, Target: target}}); err == nil {
			t.Errorf("input as %q was taken: %+v", target, m)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made on the host: %v", err)
	}
	// A place that is a link or a pipe itself is replaced, not followed.
	other := write(t, filepath.Join(dir, "other"), "y")
	for _, target := range []string{"pipe", "replaced"} {
		if _, err := s.CopyIn(t.Context(), []isolate.Input{{Source: other, Target: target}}); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("a file of the host was written through a link: %q, %v", b, err)
	}
	for name, out := range map[string]string{
		"a link": link(t, dir, "link-to-elsewhere"), "a file": file, "not empty": dir, "no parent": filepath.Join(dir, "no", "parent"), "relative root": "/",
	} {
		if m, err := s.CopyOut(t.Context(), out); err == nil {
			t.Errorf("output to %s was made: %+v", name, m)
		}
	}
}

func link(t *testing.T, dir, name string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.Symlink(tempDir(t), at); err != nil {
		t.Fatal(err)
	}
	return at
}

// A43: what a run leaves is not there for the next one, which comes to the
// same cell and the same cgroup.
func TestNothingIsLeft(t *testing.T) {
	l := newLab(t)
	places := "/tmp/left /dev/shm/left /home/sandbox/left /workspace/left /dev/shm/sem.left"
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			made, gone := "ENOSYS", "ENOSYS"
			queue := "ENOSYS"
			if p == policy.ProfileCompat {
				made, gone = "ok", "ENOENT"
				queue = "EMFILE" // the limit of message queues is 0
			}
			wantLeft := strings.ReplaceAll(places, " ", ": ok\n") + ": ok\nSysV shared memory: " + made + "\nSysV semaphores: " + made +
				"\nSysV messages: " + made + "\nPOSIX messages: " + queue + "\nabstract socket: ok"
			wantSeen := strings.ReplaceAll(places, " ", ": ENOENT\n") + ": ENOENT\nSysV shared memory: " + gone + "\nSysV semaphores: " + gone +
				"\nSysV messages: " + gone + "\nPOSIX messages: " + gone + "\nabstract socket: ECONNREFUSED\nother processes: 0"
			for range 3 {
				res := l.run(t, isolate.Policy{Profile: p}, script(t, "files_left.c", "leave"))
				compareAnswers(t, answersOf(wantLeft), answersOf(string(res.Stdout.Kept)))
				res = l.run(t, isolate.Policy{Profile: p}, script(t, "files_left.c", "look"))
				compareAnswers(t, answersOf(wantSeen), answersOf(string(res.Stdout.Kept)))
			}
		})
	}
}

// A43, between sandboxes that run at once: they share no file, no memory, no
// socket, no process and no port.
func TestTwoAtOnceShareNothing(t *testing.T) {
	l := newLabWith(t, isolate.Options{})
	first, err := l.Sandbox(t.Context(), isolate.Policy{Profile: policy.ProfileCompat})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	c := script(t, "files_left.c", "leave")
	if _, err := first.CopyIn(t.Context(), c.In); err != nil {
		t.Fatal(err)
	}
	// It holds what it made, a port and a process until it is told to end.
	const port = 4711
	hold := isolate.Cmd{Args: []string{"/bin/sh", "-c", c.Args[0] + ` leave >&2; echo held; exec /usr/bin/python3 -c '
import socket, sys
s = socket.socket(); s.bind(("127.0.0.1", ` + strconv.Itoa(port) + `)); s.listen()
t = socket.socket(socket.AF_INET6); t.bind(("::1", ` + strconv.Itoa(port) + `)); t.listen()
print("listening", flush=True); sys.stdin.read()'`}}
	held := holdOpen(t, first, hold)
	defer held()

	look := l.run(t, isolate.Policy{Profile: policy.ProfileCompat}, script(t, "files_left.c", "look"))
	for _, a := range answersOf(string(look.Stdout.Kept)) {
		if a.got == "ok" || a.attempt == "other processes" && a.got != "0" {
			t.Errorf("%s: %s in another sandbox", a.attempt, a.got)
		}
	}
	got := l.shell(t, isolate.Policy{}, `exec /usr/bin/python3 -c '
import socket
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    c = socket.socket(family)
    print("other listener", host, c.connect_ex((host, `+strconv.Itoa(port)+`)))
    s = socket.socket(family); s.bind((host, `+strconv.Itoa(port)+`)); s.listen()
    c = socket.socket(family)
    print("own listener", host, c.connect_ex((host, `+strconv.Itoa(port)+`)))'`)
	if want := "other listener 127.0.0.1 111\nown listener 127.0.0.1 0\nother listener ::1 111\nown listener ::1 0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
