package hostile

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

var procDenials = []attack{{
	script: "proc_masks.c", cases: "A38 B26", layer: byView,
	attempt: "kcore, kallsyms, keys, timers, interrupts and all else of /proc and /sys that shows the host",
	source:  "Docker and Kubernetes mask lists",
	answers: hidden(`/proc/acpi /proc/asound /proc/buddyinfo /proc/bus  /proc/cmdline
		/proc/config.gz    /proc/diskstats  /proc/driver 
		/proc/fs /proc/interrupts /proc/iomem /proc/ioports /proc/irq /proc/kallsyms /proc/kcore /proc/key-users
		/proc/keys /proc/kmsg /proc/kpagecgroup /proc/kpagecount /proc/kpageflags /proc/latency_stats /proc/locks
		/proc/mdstat  /proc/modules /proc/pagetypeinfo /proc/partitions /proc/pressure/cpu
		/proc/sched_debug /proc/schedstat /proc/scsi /proc/slabinfo /proc/softirqs /proc/swaps /proc/sysrq-trigger
		 /proc/timer_list /proc/timer_stats  /proc/vmallocinfo /proc/vmstat
		/proc/zoneinfo /proc/sys/fs/binfmt_misc /sys/firmware /sys/kernel /sys/class /sys/bus /sys/block /sys/module
		/sys/power /sys/devices/virtual /sys/devices/pci0000:00 /sys/devices/system/cpu/cpu0
		/sys/devices/system/node /sys/hypervisor`),
}, {
	script: "proc_write.c", cases: "A37 B27", layer: byView + "; " + byMount + "; " + byCaps,
	attempt: "writing core_pattern, sysrq-trigger, sysctls, oom_score_adj, id maps, cgroup files",
	source:  "sunwalker hidden_procfs, CDK procfs",
	answers: `
		/proc/sys/kernel/core_pattern: EACCES
		/proc/sys/kernel/modprobe: denied
		/proc/sys/kernel/hotplug: denied
		/proc/sys/kernel/hostname: EACCES
		/proc/sys/kernel/domainname: EACCES
		/proc/sys/kernel/sysrq: denied
		/proc/sys/kernel/shmmax: EACCES
		/proc/sys/kernel/ns_last_pid: denied
		/proc/sys/kernel/yama/ptrace_scope: denied
		/proc/sys/vm/overcommit_memory: EACCES
		/proc/sys/vm/drop_caches: EACCES
		/proc/sys/fs/file-max: EACCES
		/proc/sys/fs/binfmt_misc/register: denied
		/proc/sys/net/ipv4/ip_forward: EACCES
		/proc/sys/net/ipv4/ip_unprivileged_port_start: EACCES
		/proc/sys/user/max_user_namespaces: EACCES
		/proc/sys/user/max_inotify_instances: EACCES
		/proc/sysrq-trigger: denied
		/proc/irq/default_smp_affinity: denied
		/proc/bus/pci/00: denied
		/proc/mtrr: denied
		/proc/self/oom_score_adj: EACCES
		/proc/self/oom_adj: EACCES
		/proc/self/uid_map: EPERM
		/proc/self/gid_map: EPERM
		/proc/self/projid_map: EPERM
		/proc/self/setgroups: EACCES
		/proc/self/timens_offsets: EPERM
		/proc/self/clear_refs: EINVAL
		/proc/1/oom_score_adj: EACCES
		/proc/1/comm: denied
		/proc/1/uid_map: EPERM
		/proc/1/mem: EACCES
		/sys/fs/cgroup/memory.max: EACCES
		/sys/fs/cgroup/cgroup.procs: ENOENT
		/sys/fs/cgroup/release_agent: ENOENT
		/sys/fs/cgroup/devices/devices.allow: ENOENT
		/sys/power/state: ENOENT`,
	strict: `
		/proc/sys/kernel/core_pattern: ENOENT
		/proc/sys/kernel/hostname: ENOENT
		/proc/sys/kernel/domainname: ENOENT
		/proc/sys/kernel/shmmax: ENOENT
		/proc/sys/vm/overcommit_memory: ENOENT
		/proc/sys/vm/drop_caches: ENOENT
		/proc/sys/fs/file-max: ENOENT
		/proc/sys/net/ipv4/ip_forward: ENOENT
		/proc/sys/net/ipv4/ip_unprivileged_port_start: ENOENT
		/proc/sys/user/max_user_namespaces: ENOENT
		/proc/sys/user/max_inotify_instances: ENOENT`,
}, {
	script: "proc_init.c", cases: "B29", layer: byInit + "; " + byPIDNS,
	attempt: "memory, environment, descriptors, image and root of init; signals to it, its limits and scheduling",
	source:  "CVE-2016-9962, CDK check-ptrace",
	answers: initLinks("exe cwd root ns/mnt ns/user fd/0 fd/3 task/1/cwd") + initFiles(`mem environ maps smaps auxv pagemap
		stack io task/1/mem task/1/environ`) + `
		write /proc/1/mem: EACCES
		write /proc/1/exe: EACCES
		/proc/1/syscall: EPERM
		/proc/1/personality: EPERM
		list /proc/1/root: EACCES
		list /proc/1/cwd: EACCES
		init after all signals: ok
		core limit of init: EPERM
		limits of init, reading: EPERM
		limits of init, lowering: EPERM
		limits of init, raising: EPERM
		priority of init: EPERM
		priority of all of the user: EPERM
		processors of init: EPERM`,
	strict: `
		priority of init: ENOSYS
		priority of all of the user: ENOSYS
		processors of init: ENOSYS`,
}, {
	script: "proc_exe.c", cases: "A39 B19", layer: byInit + "; " + byView,
	attempt: "overwriting the running image, init's, the shell and the loader",
	source:  "CVE-2019-5736, CDK runc-pwn",
	answers: `
		own image, for writing: ETXTBSY
		own image by its path, for writing: ETXTBSY
		init's image, for reading: EACCES
		init's image, for writing: EACCES
		the C library, for writing: EACCES
		the shell, for writing: EROFS
		the parent's image, for writing: EACCES
		own image through a held descriptor: ETXTBSY`,
}, {
	script: "proc_mem.c", cases: "B19 B33", layer: "kernel's own rules; " + byMount,
	attempt: "writing into read-only files through /proc/self/mem and mappings",
	source:  "Dirty COW, CVE-2016-5195",
	answers: `
		into a private mapping: ok
		into a shared mapping: EIO
		a shared mapping made writable: EACCES
		a shared writable mapping: EACCES
		the file: unchanged`,
}, {
	script: "proc_leaks.sh", cases: "B31 B28 A41", layer: byView, inTest: "TestNothingTellsTheHost",
	attempt: "mounts, cgroups, names, ids, variables that tell where it runs",
	source:  "deepce, sunwalker environment",
	says:    "cgroup `/`, host name `sandbox`, variables of the policy only, no path of the host",
	answers: "cgroups: /",
}, {
	script: "proc_machine.sh", cases: "B87", layer: byView, inTest: "TestMachineIsStandIn",
	attempt: "load, model and times of the machine", source: "arXiv 2404.10715",
	answers: "cpuinfo, stat, meminfo, uptime, loadavg: stand-ins",
}}

func hidden(paths string) string {
	return strings.Join(strings.Fields(paths), ": hidden\n") + ": hidden"
}

func initLinks(names string) string {
	var b strings.Builder
	for _, n := range strings.Fields(names) {
		b.WriteString("read link /proc/1/" + n + ": EACCES\nopen /proc/1/" + n + ": EACCES\n")
	}
	return b.String()
}

func initFiles(names string) string {
	var b strings.Builder
	for _, n := range strings.Fields(names) {
		b.WriteString("/proc/1/" + n + ": EACCES\n")
	}
	return b.String()
}

func TestProc(t *testing.T) { runDenials(t, procDenials) }

// B31, B28, A41: no text of the host shows anywhere in the sandbox: neither
// the run-time directory, the home, the source of a bind or a root directory,
// nor a variable of the caller.
func TestNothingTellsTheHost(t *testing.T) {
	t.Setenv("CANARY_API_KEY", "canary-key-value")
	t.Setenv("LD_LIBRARY_PATH", "/canary-libraries")
	base := tempDir(t)
	home := filepath.Join(base, "canary-home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	shown := filepath.Join(base, "canary-source")
	write(t, filepath.Join(shown, "data"), "shown")
	single := write(t, filepath.Join(base, "canary-file"), "shown")
	l := newLab(t)
	secrets := []string{"canary", "isolate-", filepath.Base(base), buildDir}
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(id) > 30 {
		secrets = append(secrets, strings.TrimSpace(string(id)))
	}
	for _, p := range profiles {
		for _, view := range []string{"host", "directory"} {
			t.Run(p.String()+"/"+view, func(t *testing.T) {
				pol := isolate.Policy{Profile: p, ReadOnly: []isolate.Bind{
					{Source: shown, Target: "/data"}, {Source: single, Target: "/single"},
					{Source: abs(t, "testdata/escape/proc_leaks.sh"), Target: "/look.sh"},
				}}
				if view == "directory" {
					pol.Rootfs = smallRoot(t, filepath.Join(base, "canary-rootfs-"+p.String()))
				}
				out := filepath.Join(base, "out-"+p.String()+"-"+view)
				res := l.run(t, pol, isolate.Cmd{Args: []string{"/bin/sh", "/look.sh"}, Env: map[string]string{"OWN": "1"}, Out: out})
				if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
					t.Errorf("ended with %s %d: %s", res.Reason, res.ExitCode, res.Stderr.Kept)
				}
				compareAnswers(t, answersOf(`
					cgroups: /
					host names: sandbox sandbox sandbox
					user: uid=1000(sandbox) gid=1000(sandbox) groups=1000(sandbox)
					variables: HOME LANG LOGNAME OWN PATH PWD SHELL TMPDIR USER
					binds: shown shown`), answersOf(string(res.Stdout.Kept)))
				seen, err := os.ReadFile(filepath.Join(out, "seen"))
				if err != nil || len(seen) < 1000 {
					t.Fatalf("saw only %d bytes, %v", len(seen), err)
				}
				for _, line := range strings.Split(string(seen), "\n") {
					for _, s := range secrets {
						if strings.Contains(line, s) {
							t.Errorf("%q shows in %q", s, line)
						}
					}
				}
			})
		}
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// B87: what is told of the machine is what was granted, the same everywhere.
func TestMachineIsStandIn(t *testing.T) {
	l := newLab(t)
	for _, p := range withSockets {
		res := l.run(t, isolate.Policy{Profile: p, Memory: 512 << 20}, script(t, "proc_machine.sh"))
		compareAnswers(t, answersOf(`
			model: sandbox
			clock: 1000.000
			uptime: 1.00 1.00
			load: 0.00 0.00 0.00 1/1 1
			processor time: cpu  0 0 0 0 0 0 0 0 0 0
			start time: btime 0
			switches: ctxt 0
			memory: MemTotal: 524288 kB`), answersOf(string(res.Stdout.Kept)))
	}
	res := l.run(t, isolate.Policy{Profile: policy.ProfileStrict}, script(t, "proc_machine.sh"))
	if n := strings.Count(string(res.Stderr.Kept), "No such file"); n != 8 {
		t.Errorf("strict shows some of the machine: %s%s", res.Stdout.Kept, res.Stderr.Kept)
	}
}

// A39, B19: while programs try to overwrite whatever image they can find,
// others start; the image of this process, which the runtime started cells
// from, is what it was.
func TestImageIsNotOverwritten(t *testing.T) {
	before := digest(t, "/proc/self/exe")
	l := newLabWith(t, isolate.Options{})
	c := script(t, "proc_exe.c")
	c.Args = []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do " + c.Args[0] + "; done"}
	end := make(chan error)
	go func() {
		for range 5 {
			if _, err := l.Run(t.Context(), isolate.Policy{}, c); err != nil {
				end <- err
				return
			}
		}
		end <- nil
	}()
	for i := range 5 {
		l.works(t)
		// another host name is another cell: the runtime's image is executed again
		l.shell(t, isolate.Policy{Hostname: "host" + strings.Repeat("x", i)}, "true")
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
	if digest(t, "/proc/self/exe") != before {
		t.Error("the image has changed")
	}
}

func digest(t *testing.T, path string) [32]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}
