package hostile

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// B73: sources that give the host away are refused, all of them at once, by
// name and by a link; with consent they are a weakening that is recorded.
func TestDangerousSources(t *testing.T) {
	base := tempDir(t)
	runtimeDir, home := filepath.Join(base, "run-user"), filepath.Join(base, "home")
	write(t, filepath.Join(runtimeDir, "bus-file"), "")
	write(t, filepath.Join(home, ".ssh/id_ed25519"), "key")
	agent := filepath.Join(base, "agent")
	s, err := net.Listen("unix", agent)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", agent)
	l := newLab(t)
	sources := []string{"/", "/home", "/proc", "/proc/self", "/proc/1/root", "/sys", "/sys/fs/cgroup", "/dev", "/dev/null",
		"/run", "/var/run", "/var/run/docker.sock", "/var/lib/docker", "/root", "/etc", "/etc/shadow", "/tmp", "/boot",
		runtimeDir, filepath.Join(runtimeDir, "bus-file"), agent, home, filepath.Join(home, ".ssh"), filepath.Join(home, ".ssh/id_ed25519"),
		base, l.dir}
	var all []isolate.Bind
	for i, source := range sources {
		bind := isolate.Bind{Source: source, Target: fmt.Sprint("/shown", i)}
		all = append(all, bind)
		if _, err := l.Run(t.Context(), isolate.Policy{ReadOnly: []isolate.Bind{bind}}, isolate.Cmd{Args: []string{"/bin/true"}}); !refused(err) {
			t.Errorf("%s: not refused: %v", source, err)
		}
		through := filepath.Join(base, fmt.Sprint("link", i))
		if err := os.Symlink(source, through); err != nil {
			t.Fatal(err)
		}
		bind.Source = through
		if _, err := l.Run(t.Context(), isolate.Policy{ReadOnly: []isolate.Bind{bind}}, isolate.Cmd{Args: []string{"/bin/true"}}); !refused(err) {
			t.Errorf("a link to %s: not refused: %v", source, err)
		}
		if _, err := l.Run(t.Context(), isolate.Policy{Rootfs: source}, isolate.Cmd{Args: []string{"/bin/true"}}); !refused(err) {
			t.Errorf("%s as root: not refused: %v", source, err)
		}
	}
	_, err = l.Run(t.Context(), isolate.Policy{ReadOnly: all}, isolate.Cmd{Args: []string{"/bin/true"}})
	for _, source := range sources {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", source)) {
			t.Errorf("the refusal of all does not name %s: %v", source, err)
		}
	}
	// consent by name
	p := isolate.Policy{ReadOnly: []isolate.Bind{{Source: filepath.Join(home, ".ssh"), Target: "/keys"}}, Allow: []policy.Weakening{policy.UnsafeBinds}}
	res := l.run(t, p, isolate.Cmd{Args: []string{"/bin/cat", "/keys/id_ed25519"}})
	if string(res.Stdout.Kept) != "key" || len(res.Weakenings) != 1 || res.Weakenings[0] != policy.UnsafeBinds {
		t.Errorf("with consent: %q, weakenings %v", res.Stdout.Kept, res.Weakenings)
	}
	// places that the view itself shows are not covered by a bind
	for _, target := range []string{"/proc", "/proc/self", "/dev", "/dev/null", "/etc/passwd", "/workspace", "/", "/usr/bin", "/sys", "../x", "relative"} {
		source := write(t, filepath.Join(base, "harmless", "x"), "x")
		p := isolate.Policy{ReadOnly: []isolate.Bind{{Source: filepath.Dir(source), Target: target}}}
		if _, err := l.Run(t.Context(), p, isolate.Cmd{Args: []string{"/bin/true"}}); !refused(err) {
			t.Errorf("target %s: not refused: %v", target, err)
		}
	}
}

// A caller's values that would end a string early or change another one.
func TestHostileCommand(t *testing.T) {
	l := newLab(t)
	for name, c := range map[string]isolate.Cmd{
		"no program": {}, "empty program": {Args: []string{""}}, "NUL in program": {Args: []string{"/bin/true\x00x"}},
		"NUL in argument": {Args: []string{"true", "a\x00b"}}, "NUL in directory": {Args: []string{"true"}, Dir: "/work\x00space"},
		"variable without name": {Args: []string{"true"}, Env: map[string]string{"": "x"}},
		"variable with =":       {Args: []string{"true"}, Env: map[string]string{"A=B": "x"}},
		"NUL in variable":       {Args: []string{"true"}, Env: map[string]string{"A": "x\x00LD_PRELOAD=y"}},
		"NUL in input":          {Args: []string{"true"}, In: []isolate.Input{{Source: "/etc/hos\x00ts"}}},
	} {
		if res, err := l.Run(t.Context(), isolate.Policy{}, c); err == nil {
			t.Errorf("%s was run: %+v", name, res)
		}
	}
	// long ones reach the program whole or are an error, never cut
	for _, n := range []int{100_000, 1 << 20, 8 << 20} {
		args := []string{"/bin/sh", "-c", `n=0; for a; do n=$((n+${#a})); done; echo $n`, "sh"}
		for range n / 50_000 {
			args = append(args, strings.Repeat("x", 50_000))
		}
		res, err := l.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: args})
		if err == nil && res.NotStarted == "" && string(res.Stdout.Kept) != fmt.Sprintf("%d\n", n/50_000*50_000) {
			t.Errorf("of %d bytes of arguments the program got %s", n, res.Stdout.Kept)
		}
		if n == 100_000 && (err != nil || res.NotStarted != "") {
			t.Errorf("100 kB of arguments: %+v, %v", res, err)
		}
	}
}

// B72: the run-time directory of somebody else, a link, a place that others may
// write to: refused, with what to do. Two at once in one directory stay apart.
func TestRunTimeDirectory(t *testing.T) {
	l := newLab(t)
	base := tempDir(t)
	elsewhere := filepath.Join(base, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	through := filepath.Join(base, "through")
	if err := os.Symlink(elsewhere, through); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	others := "/usr" // root's
	if os.Geteuid() == 0 {
		others = filepath.Join(base, "others")
		if err := os.Mkdir(others, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(others, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for name, dir := range map[string]string{"a link": through, "writable by all": open, "another user's": others, "a file": write(t, filepath.Join(base, "file"), ""), "/tmp": os.TempDir()} {
		rt, err := isolate.Open(t.Context(), isolate.Options{Dir: dir})
		if err == nil {
			rt.Close()
			t.Errorf("%s as run-time directory was taken", name)
		} else if !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") && !strings.Contains(err.Error(), "directory") {
			t.Errorf("%s: the error does not say what to do: %v", name, err)
		}
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("made behind a link: %v, %v", left, err)
	}
	second, err := isolate.Open(t.Context(), isolate.Options{Dir: l.dir, Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range []*isolate.Runtime{second, l.Runtime} {
		if res, err := rt.Run(t.Context(), isolate.Policy{}, isolate.Cmd{Args: []string{"/bin/echo", "x"}}); err != nil || string(res.Stdout.Kept) != "x\n" {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	mode := func(path string) os.FileMode {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fi.Mode().Perm()
	}
	want := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		want = 0o711 // the id that root's sandboxes have passes through
	}
	if got := mode(l.dir); got != want {
		t.Errorf("the run-time directory has mode %#o, want %#o", got, want)
	}
}

// lacking are hosts that cannot give a guarantee. Each is a stage that takes
// something away from itself and goes on as stage "attempt", in a fresh
// process; say are words that the refusal must have.
var lacking = []struct {
	name       string
	namespaces uintptr
	caps       []uintptr
	take       func() error
	say        []string
	// weak is the consent with which it runs all the same, "" if there is none.
	weak policy.Weakening
}{
	{"no user namespaces", unix.CLONE_NEWUSER, []uintptr{unix.CAP_SYS_RESOURCE}, func() error {
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}, []string{"user.max_user_namespaces"}, ""},
	{"control groups that are read-only", unix.CLONE_NEWNS, []uintptr{unix.CAP_SYS_ADMIN}, sealCgroups, []string{"memory", "pids", "weak-limits"}, policy.WeakLimits},
	{"masked proc, as in a container", unix.CLONE_NEWNS, []uintptr{unix.CAP_SYS_ADMIN}, func() error {
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return err
		}
		// a proc mount that is not fully visible, and no other
		if err := unix.Mount("/dev/null", "/proc/kallsyms", "", unix.MS_BIND, ""); err != nil {
			return err
		}
		return unix.Mount("none", "/proc/sys", "tmpfs", unix.MS_RDONLY, "")
	}, []string{"proc"}, ""},
	{"a listener of somebody else's", 0, nil, otherListener, []string{"seccomp"}, ""},
}

// sealCgroups makes every hierarchy read-only, as it is in a container.
func sealCgroups() error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if !strings.Contains(line, " - cgroup") {
			continue
		}
		at := strings.Fields(line)[4]
		if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		// the flags that the mount has are locked in a user namespace
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err != nil {
			return err
		}
		flags := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_RELATIME|flags, ""); err != nil {
			return err
		}
	}
	return nil
}

// otherListener puts this process under a filter with a listener, as some
// container engines do: the kernel allows one only.
func otherListener() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	prog := unix.SockFprog{Len: 1, Filter: &allow}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	// The listener lives as long as its descriptor does.
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0)
	return err
}

func init() {
	for i, l := range lacking {
		stages[fmt.Sprint("lacking", i)] = func() int {
			err := l.take()
			if err == nil {
				err = become("attempt")
			}
			fmt.Println("cannot take it away:", err)
			return 3
		}
	}
	stages["attempt"] = attempt
}

// attempt opens a runtime and runs a program, and prints what came of it.
func attempt() int {
	dir, err := os.MkdirTemp("", "isolate-hostile-attempt-")
	if err != nil {
		fmt.Println(err)
		return 3
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Println(err)
		return 3
	}
	p := isolate.Policy{}
	if w := os.Getenv("ALLOW"); w != "" {
		p.Allow = []policy.Weakening{policy.Weakening(w)}
	}
	rt, err := isolate.Open(context.Background(), isolate.Options{Dir: filepath.Join(dir, "run"), Spares: isolate.NoSpares})
	if err == nil {
		var res isolate.Result
		res, err = rt.Run(context.Background(), p, isolate.Cmd{Args: []string{"/bin/echo", "ran"}})
		fmt.Printf("output %q\nweakenings %v\nlimits %s\n", res.Stdout.Kept, res.Weakenings, res.Limits)
		if closeErr := rt.Close(); closeErr != nil {
			fmt.Println("close:", closeErr)
		}
	}
	if err == nil {
		return 0
	}
	refusal, ok := err.(*plan.Refusal)
	fmt.Printf("refusal %t\n%v\n", ok, err)
	if ok && refusal.Cause != nil {
		fmt.Println("cause:", refusal.Cause)
	}
	return 1
}

// A18, A73, B76: a host that lacks a guarantee: a clear error names what is
// missing, and nothing was executed.
func TestLackingHosts(t *testing.T) {
	newLab(t)
	for i, host := range lacking {
		t.Run(host.name, func(t *testing.T) {
			try := func(allow policy.Weakening) (string, int) {
				c := again(fmt.Sprint("lacking", i), host.namespaces, host.caps...)
				if host.namespaces == 0 {
					c.SysProcAttr = &syscall.SysProcAttr{}
				}
				c.Env = append(c.Env, "ALLOW="+string(allow))
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, &out
				err := c.Run()
				if _, ended := err.(*exec.ExitError); err != nil && !ended {
					t.Fatal(err)
				}
				return out.String(), c.ProcessState.ExitCode()
			}
			out, code := try("")
			if code != 1 || strings.Contains(out, `"ran`) {
				t.Fatalf("ended with %d: %s", code, out)
			}
			for _, word := range host.say {
				if !strings.Contains(out, word) {
					t.Errorf("the error does not say %q: %s", word, out)
				}
			}
			if host.weak == "" {
				return
			}
			if out, code = try(host.weak); code != 0 || !strings.Contains(out, `output "ran\n"`) || !strings.Contains(out, "weakenings ["+string(host.weak)+"]") || !strings.Contains(out, "limits rlimits") {
				t.Errorf("with consent it ended with %d: %s", code, out)
			}
		})
	}
}
