package stranger_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A machine without anything in the way runs the first program of somebody who
// has logged in, without any setting up.
func TestFirstProgram(t *testing.T) {
	install(t)
	if c, verdict := session.doctor(t, "cgroup.memory"); c.Status == "fail" || verdict == "cannot-run" {
		t.Errorf("%s; %+v", verdict, c)
	}
	session.runs(t)
	t.Logf("not in order:\n%s", session.complaints(t))
}

// Settings of distributions and administrators that make sandboxes impossible
// are named with the remedy by doctor and by the first run alike, and what
// doctor prints for root lifts them.
func TestSettings(t *testing.T) {
	install(t)
	for _, state := range []struct {
		name, value, check, remedy string
	}{
		{"user.max_user_namespaces", "0", "userns.max", "sysctl -w user.max_user_namespaces=15000"}, // hardened RHEL
		{"kernel.unprivileged_userns_clone", "0", "userns.clone-sysctl", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user.max_net_namespaces", "0", "namespaces.max", "user.max_…_namespaces to 15000"},
		{"vm.memfd_noexec", "2", "memfd.noexec", "sysctl -w vm.memfd_noexec=1"},
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "userns.apparmor", "AppArmor profile that `isolate doctor --print-setup` prints"}, // Ubuntu
	} {
		t.Run(state.name, func(t *testing.T) {
			sysctl(t, state.name, state.value)
			c, verdict := session.doctor(t, state.check)
			if verdict != "cannot-run" || c.Status != "fail" || !strings.Contains(c.Remedy, state.remedy) {
				t.Errorf("doctor says %s and %+v", verdict, c)
			}
			t.Logf("%s", c.Evidence)
			session.isRefused(t, state.remedy)
			session.setUp(t)
			if c, verdict := session.doctor(t, state.check); verdict == "cannot-run" || c.Status == "fail" {
				t.Errorf("after the setting up doctor says %s and %+v", verdict, c)
			}
			session.runs(t)
		})
	}
}

// Ubuntu loads a profile for programs without one, which takes the
// capabilities away where the kernel alone refuses the namespace.
func TestUbuntuUnprivilegedProfile(t *testing.T) {
	install(t)
	sysctl(t, "kernel.apparmor_restrict_unprivileged_userns", "1")
	unload(t, "isolate")
	load := exec.Command("apparmor_parser", "-r")
	load.Stdin = strings.NewReader(unprivileged)
	if out, err := load.CombinedOutput(); err != nil {
		t.Skipf("needs an AppArmor that mediates user namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { unload(t, "unprivileged_userns") })
	c, verdict := session.doctor(t, "userns.apparmor")
	if verdict != "cannot-run" || c.Status != "fail" || !strings.Contains(c.Remedy, "--print-setup") {
		t.Errorf("doctor says %s and %+v", verdict, c)
	}
	t.Logf("%s", c.Evidence)
	session.isRefused(t, "--print-setup")
	session.setUp(t)
	session.runs(t)
}

// unprivileged is the profile of that name as Ubuntu's package has it, in short.
const unprivileged = `abi <abi/4.0>,
include <tunables/global>
profile unprivileged_userns {
  audit deny capability,
  allow file rwlkm /{**,},
  allow network,
  allow unix,
  allow ptrace,
  allow signal,
  allow mqueue,
  allow io_uring,
  allow userns,
  allow mount,
  allow umount,
  allow pivot_root,
  allow dbus,
  allow pix /** -> &unprivileged_userns ,
}
`

// unload takes a profile away, if it is there.
func unload(t *testing.T, name string) {
	t.Helper()
	_ = os.WriteFile("/sys/kernel/security/apparmor/.remove", []byte(name), 0)
	if b, _ := os.ReadFile("/sys/kernel/security/apparmor/profiles"); strings.Contains("\n"+string(b), "\n"+name+" (") {
		t.Errorf("profile %s is still there", name)
	}
}

// After su, and in a job without a session, there is no systemd of the user to
// ask for a group: refused, until root has made it linger.
func TestWithoutSession(t *testing.T) {
	install(t)
	for name, in := range map[string]login{"su": switched, "service": service} {
		t.Run(name, func(t *testing.T) {
			gone(t)
			c, verdict := in.doctor(t, "cgroup.memory")
			if verdict != "cannot-run" || c.Status != "fail" || !strings.Contains(c.Remedy, "loginctl enable-linger "+user) {
				t.Errorf("doctor says %s and %+v", verdict, c)
			}
			in.isRefused(t, "loginctl enable-linger "+user)
			if a := in.isolate(t, "exec --allow weak-limits -- echo hello"); a.code != 0 || a.out != "hello\n" {
				t.Errorf("with consent: %+v", a)
			}
			in.setUp(t)
			t.Cleanup(func() { root(t, "loginctl", "disable-linger", user) })
			await(t, "the user's systemd", func() bool {
				return exec.Command("systemctl", "--quiet", "is-active", "user@1001.service").Run() == nil
			})
			in.runs(t)
		})
	}
}

// gone waits until the user's systemd of earlier sessions has ended.
func gone(t *testing.T) {
	t.Helper()
	await(t, "the end of the user's systemd", func() bool {
		_, err := os.Stat("/run/user/1001")
		return err != nil
	})
}

// await waits for what takes seconds at most, on an emulated machine.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for begin := time.Now(); !there(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("no sign of %s after a minute", what)
		}
	}
}
