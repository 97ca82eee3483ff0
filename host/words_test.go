package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/policy"
	"github.com/rogpeppe/go-internal/txtar"
)

const leaf = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope"

// worded has for every fault of words.go a machine that shows it: a state with
// some files laid over it.
var worded = []struct {
	words  *fault
	entry  *entry
	status Status
	state  string
	over   string
}{
	{&noAnswer, &procMount, Fail, "ready", "-- kernel.json --\n{\"silent\": [\"proc.mount\"]}\n"},
	{&usernsAbsent, &usernsMax, Fail, "ready", "-- delete --\n/proc/self/ns/user\n"},
	{&usernsMaxZero, &usernsMax, Fail, "userns-max-0", ""},
	{&usernsCloneZero, &usernsClone, Fail, "debian-userns-off", ""},
	{&usernsApparmorOn, &usernsApparmor, Fail, "ubuntu-apparmor", ""},
	{&usernsApparmorOn, &usernsCreate, Fail, "ubuntu-apparmor", ""},
	{&namespacesZero, &namespaceLimits, Fail, "ready", "-- proc/sys/user/max_net_namespaces --\n0\n"},
	{&usernsCreateLimit, &usernsCreate, Fail, "userns-max-0", ""},
	{&usernsCreateMemfd, &usernsCreate, Fail, "ubuntu-apparmor", "-- kernel.json --\n{\"fail\": {\"userns.create\": {\"step\": \"make a user namespace\", \"errno\": \"EPERM\", \"detail\": \"while it works from the program's file\"}}}\n"},
	{&usernsCreateDocker, &usernsCreate, Fail, "docker-default", ""},
	{&usernsCreateKube, &usernsCreate, Fail, "kubernetes", ""},
	{&usernsCreateRefused, &usernsCreate, Fail, "debian-userns-off", ""},
	{&usernsNestedRefused, &usernsNested, Fail, "ready", fails("userns.nested", "EPERM")},
	{&usernsCloseRefused, &usernsClose, Warn, "ready", fails("userns.close", "EROFS")},
	{&loopbackRefused, &netLoopback, Fail, "ready", fails("net.loopback", "EPERM")},
	{&tmpfsRefused, &mountTmpfs, Fail, "ready", fails("mount.tmpfs", "EPERM")},
	{&bindRefused, &mountBind, Fail, "ready", fails("mount.bind", "EACCES")},
	{&pivotRefused, &mountPivot, Fail, "ready", fails("mount.pivot", "EINVAL")},
	{&procDocker, &procMount, Fail, "docker-masked", ""},
	{&procPodman, &procMount, Fail, "podman-masked", ""},
	{&procKube, &procMount, Fail, "kubernetes", "-- kernel.json --\n{\"needs\": \"\", \"fail\": {\"proc.mount\": {\"step\": \"mount proc\", \"errno\": \"EPERM\"}}}\n"},
	{&procRefused, &procMount, Fail, "ready", fails("proc.mount", "EPERM")},
	{&procSubsetRefused, &procSubset, Warn, "old-kernel", ""},

	{&cgroupModeOld, &cgroupMode, Warn, "hybrid", ""},
	{&cgroupModeNone, &cgroupMode, Fail, "ready", "-- proc/self/cgroup --\n"},
	{&controllerAbsent, &cgroupMemory, Fail, "ready", "-- proc/self/cgroup --\n"},
	{&controllerAbsent, &cgroupPIDs, Fail, "cgroup1-given", "-- proc/self/cgroup --\n4:memory:/ada\n2:cpu,cpuacct:/ada\n"},
	{&controllerUndelegated, &cgroupMemory, Fail, "no-controllers", ""},
	{&controllerUndelegated, &cgroupCPU, Warn, "login-session", ""},
	{&controllerScope, &cgroupMemory, Fail, "login-session", ""},
	{&controllerDenied, &cgroupPIDs, Fail, "login-session", "-- delete --\n/run/user/1000/systemd\n-- run/systemd/system/unit --\n"},
	{&controllerUnowned, &cgroupPIDs, Fail, "login-session", "-- delete --\n/run/user/1000/systemd\n"},
	{&controllerOld, &cgroupMemory, Fail, "hybrid", ""},
	{&controllerContainer, &cgroupMemory, Fail, "docker-default", ""},
	{&sessionAbsent, &cgroupSession, Info, "no-controllers", ""},
	{&killAbsent, &cgroupKill, Warn, "cgroup1-given", ""},
	{&killAbsent, &cgroupKill, Warn, "old-kernel", ""},
	{&killUnseen, &cgroupKill, Warn, "hybrid", ""},
	{&oomGroupAbsent, &cgroupOOM, Warn, "cgroup1-given", ""},
	{&swapOpen, &cgroupSwap, Warn, "cgroup1-given", ""},

	{&singleID, &identityMap, Info, "ready", "-- etc/subgid --\nada:524288:1000\n"},
	{&singleID, &identityMap, Info, "ready", "-- delete --\n/usr/bin/newgidmap\n"},
	{&mapRefused, &identityMap, Info, "ready", fails("identity.map", "EPERM")},
	{&realRoot, &identityRoot, Warn, "root", ""},

	{&kernelOld, &kernelVersion, Warn, "old-kernel", ""},
	{&featureAbsent, &kernelOpenat2, Fail, "old-kernel", ""},
	{&featureFiltered, &kernelOpenat2, Fail, "ready", "-- kernel.json --\n{\"errors\": {\"openat2\": \"EPERM\"}}\n"},
	{&notifyRefused, &kernelNotify, Fail, "ready", fails("kernel.seccomp-notify", "EBUSY")},
	{&killableAbsent, &kernelKillable, Warn, "hybrid", ""},
	{&clone3Absent, &kernelClone3, Warn, "docker-default", ""},
	{&libseccompUnknown, &libseccompCheck, Warn, "ready", "-- options.json --\n{\"libseccomp\": {\"built\": \"2.5.4\", \"loaded\": \"2.5.4\", \"api\": 6, \"unknown\": [\"futex_wait\"]}}\n"},
	{&libseccompOld, &libseccompCheck, Warn, "ready", "-- options.json --\n{\"libseccomp\": {\"built\": \"2.5.4\", \"loaded\": \"2.4.4\", \"api\": 4}}\n"},
	{&libseccompOther, &libseccompCheck, Warn, "ready", "-- options.json --\n{\"libseccomp\": {\"built\": \"2.6.0\", \"loaded\": \"2.5.4\", \"api\": 6}}\n"},
	{&memfdForbidden, &memfdNoexec, Fail, "memfd-noexec-2", ""},
	{&memfdRefused, &memfdExec, Fail, "memfd-noexec-2", ""},

	{&apparmorConfines, &lsmApparmor, Warn, "ready", "-- sys/module/apparmor/parameters/enabled --\nY\n-- proc/self/attr/current --\ndocker-default (enforce)\n"},
	{&selinuxConfines, &lsmSELinux, Warn, "ready", "-- sys/fs/selinux/enforce --\n1\n-- proc/self/attr/current --\nsystem_u:system_r:container_t:s0:c1,c2\n"},

	{&moduleReachable, &surfaceAlg, Info, "ready", "-- proc/net/protocols --\nALG 1 0 -1\n"},
	{&moduleReachable, &surfaceRxrpc, Info, "ready", "-- proc/modules --\nrxrpc 400000 0 - Live 0x0\n"},
	{&moduleReachable, &surfaceEsp4, Info, "ready", "-- lib/modules/6.12.8-200.fc41.x86_64/modules.builtin --\nkernel/net/ipv4/esp4.ko\n"},
	{&moduleReachable, &surfaceEsp6, Info, "ready", "-- lib/modules/6.12.8-200.fc41.x86_64/modules.dep --\nkernel/net/ipv6/esp6.ko.zst:\n"},
	{&ioUringOpen, &surfaceIoUring, Info, "ready", "-- kernel.json --\n{\"errors\": {\"io_uring\": \"\"}}\n-- proc/sys/kernel/io_uring_disabled --\n0\n"},
	{&bpfOpen, &surfaceBPF, Warn, "ready", "-- proc/sys/kernel/unprivileged_bpf_disabled --\n0\n"},
	{&uffdOpen, &surfaceUffd, Warn, "ready", "-- proc/sys/vm/unprivileged_userfaultfd --\n1\n"},
	{&perfOpen, &surfacePerf, Warn, "ready", "-- proc/sys/kernel/perf_event_paranoid --\n-1\n"},
	{&dmesgOpen, &surfaceDmesg, Info, "ready", "-- proc/sys/kernel/dmesg_restrict --\n0\n"},
	{&kptrOpen, &surfaceKptr, Info, "ready", "-- proc/sys/kernel/kptr_restrict --\n0\n"},
	{&tiocstiOpen, &surfaceTiocsti, Info, "old-kernel", ""},
	{&ptraceOpen, &surfaceYama, Info, "ready", "-- delete --\n/proc/sys/kernel/yama\n"},
	{&corePiped, &surfaceCorePipe, Info, "ready", "-- proc/sys/kernel/core_pattern --\n|/usr/lib/systemd/systemd-coredump %P\n"},
	{&cpuVulnerable, &surfaceCPU, Info, "ready", "-- sys/devices/system/cpu/vulnerabilities/mds --\nVulnerable: Clear CPU buffers attempted, no microcode\n"},
	{&smtActive, &surfaceSMT, Info, "ready", "-- sys/devices/system/cpu/smt/active --\n1\n"},

	{&rundirIsLink, &rundirLink, Fail, "ready", "-- kernel.json --\n{\"links\": [\"/run/user/1000/isolate\"]}\n"},
	{&rundirForeign, &rundirOwner, Fail, "ready", "-- kernel.json --\n{\"uids\": {\"/run/user/1000/isolate\": 1001}}\n"},
	{&rundirNoDir, &rundirOwner, Fail, "ready", "-- delete --\n/run/user/1000\n"},
	{&rundirOpen, &rundirMode, Fail, "ready", "-- kernel.json --\n{\"modes\": {\"/run/user/1000/isolate\": \"0755\"}}\n"},
	{&rundirLoose, &rundirParent, Fail, "ready", "-- kernel.json --\n{\"modes\": {\"/run/user\": \"0777\"}}\n"},
	{&rundirLoose, &rundirParent, Fail, "ready", "-- kernel.json --\n{\"uids\": {\"/run/user/1000\": 1001}}\n"},
	{&rundirNoexec, &rundirMount, Warn, "ready", rundirOn("rw,nosuid,nodev,noexec", "tmpfs", "")},
	{&rundirRemote, &rundirLocal, Warn, "ready", rundirOn("rw,nosuid", "nfs4", "")},
	{&rundirFull, &rundirSpace, Fail, "ready", "-- kernel.json --\n{\"free\": 1048576}\n"},
	{&rundirPeers, &rundirShared, Info, "ready", rundirOn("rw,nosuid", "tmpfs", "shared:9 ")},

	{&inotifyRefused, &inotifyWatch, Fail, "ready", fails("inotify.watch", "EMFILE")},
	{&inotifyLow, &inotifyInstances, Warn, "ready", "-- proc/sys/fs/inotify/max_user_instances --\n16\n"},
	{&inotifyLow, &inotifyWatches, Warn, "ready", "-- proc/sys/fs/inotify/max_user_watches --\n4096\n"},
	{&inotifyLow, &inotifyQueue, Warn, "ready", "-- proc/sys/fs/inotify/max_queued_events --\n1024\n"},
	{&rlimitLow, &limitFiles, Warn, "ready", "-- proc/self/limits --\nMax processes             31000                31000                processes\nMax open files            1024                 1024               files\n"},
	{&rlimitLow, &limitProcesses, Warn, "ready", "-- proc/self/limits --\nMax processes             unlimited                100                processes\n"},

	{&netDeviceAbsent, &netDevice, Info, "ready", "-- delete --\n/dev/net/tun\n"},
	{&netDeviceClosed, &netDevice, Info, "ready", "-- kernel.json --\n{\"modes\": {\"/dev/net/tun\": \"0600\"}}\n"},
	{&netHelperAbsent, &netHelper, Info, "root", ""},

	{&clockSlow, &hostClock, Info, "ready", "-- sys/devices/system/clocksource/clocksource0/current_clocksource --\nhpet\n"},
	{&hidepidOff, &hostHidepid, Info, "hybrid", ""},
	{&hostView, &hostRootfs, Info, "root", ""},

	{&keyAbsent, &auditKey, Fail, "ready", auditAt("", "")},
	{&keyOpen, &auditKey, Fail, "ready", auditAt("", "") + "-- home/ada/key --\nsecret\n-- kernel.json --\n{\"owned\": [\"/home/ada\"]}\n"},
	{&logUnwritable, &auditLog, Fail, "ready", auditAt("", "") + "-- var/log/isolate/.keep --\n"},
	{&logFull, &auditSpace, Warn, "ready", auditAt("", "") + "-- var/log/isolate/.keep --\n-- kernel.json --\n{\"free\": 20971520}\n"},
	{&anchorAway, &auditAnchor, Warn, "ready", auditAt("connection refused", "")},
	{&anchorNone, &auditAnchor, Info, "ready", auditAt("", "")},
}

func fails(probe, errno string) string {
	return "-- kernel.json --\n{\"fail\": {\"" + probe + "\": {\"step\": \"do it\", \"errno\": \"" + errno + "\"}}}\n"
}

func rundirOn(options, fstype, optional string) string {
	return "-- proc/self/mountinfo --\n24 1 0:22 / / rw - ext4 /dev/vda rw\n" +
		"27 24 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" +
		"29 24 0:27 / /run/user/1000 " + options + " " + optional + "- " + fstype + " src rw\n"
}

func auditAt(anchor, more string) string {
	return "-- options.json --\n{\"uid\": 1000, \"audit_log\": \"/var/log/isolate\", \"audit_key\": \"/home/ada/key\", \"anchor\": \"" + anchor + "\"}\n" + more
}

func TestWords(t *testing.T) {
	for _, w := range worded {
		t.Run(w.entry.id+"/"+w.state, func(t *testing.T) {
			o, _ := loadState(t, w.state, txtar.Parse([]byte(w.over)))
			c := Probe(t.Context(), o).Check(w.entry.id)
			s := look(o)
			want := s.say(w.entry, w.words, w.status, "")
			if c.Status != w.status || c.What != want.What || c.Missing != want.Missing || c.Remedy != want.Remedy {
				t.Errorf("got  %v %q, %q, %q\nwant %v %q, %q, %q", c.Status, c.What, c.Missing, c.Remedy, want.Status, want.What, want.Missing, want.Remedy)
			}
			if w.words != &noAnswer && !slices.Contains(w.words.of, w.entry) {
				t.Errorf("words.go does not name %s among those these words are for", w.entry.id)
			}
		})
	}
	// The suspicion that only Blocking has.
	o, _ := loadState(t, "ubuntu-apparmor-profile")
	b := Blocking(t.Context(), o)
	if len(b) != 1 || b[0].Status != Warn || b[0].What != usernsApparmorMaybe.what {
		t.Errorf("Blocking under AppArmor with a profile: %v", b)
	}
}

// TestEveryFaultIsShown: each var of words.go is in the table above, for each
// check it is for.
func TestEveryFaultIsShown(t *testing.T) {
	needSource(t)
	f, err := parser.ParseFile(token.NewFileSet(), "words.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("words_test.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		v, ok := node.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		lit, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			return true
		}
		if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "fault" {
			n++
			name := v.Names[0].Name
			if !strings.Contains(string(table), "{&"+name+",") && name != "usernsApparmorMaybe" {
				t.Errorf("no machine shows %s", name)
			}
		}
		return true
	})
	if n < 60 {
		t.Errorf("found only %d faults in words.go: the test does not see them", n)
	}
}

// TestEntries: ids are unique, weakenings exist, and every check is in order
// on the machine on which everything is.
func TestEntries(t *testing.T) {
	o, _ := loadState(t, "ready", txtar.Parse([]byte(auditAt("ok", "")+
		"-- var/log/isolate/.keep --\n-- home/ada/key --\nk\n-- kernel.json --\n"+
		`{"owned": ["/run/user/1000", "/home/ada", "/var/log/isolate", "`+leaf+`"], "modes": {"/home/ada/key": "0600"}}`+"\n")))
	o.Rootfs, o.NetHelper, o.Libseccomp = "/srv/tree", "/usr/local/bin/isolate-netd", &Libseccomp{Built: "2.5.5", Loaded: "2.5.5", API: 7}
	o.Getenv = func(n string) string {
		return map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000", "PATH": "/usr/bin"}[n]
	}
	r := Probe(t.Context(), o)
	seen := map[string]bool{}
	for _, sec := range sections() {
		for _, l := range sec.looks {
			e := l.entry
			if seen[e.id] {
				t.Errorf("%s is there twice", e.id)
			}
			seen[e.id] = true
			if (e.allow != "") != (e.block == BlockUnlessAllowed) {
				t.Errorf("%s: %v with weakening %q", e.id, e.block, e.allow)
			}
			if e.allow != "" && !slices.Contains(policy.Weakenings, policy.Weakening(e.allow)) {
				t.Errorf("%s: policy knows no weakening %q", e.id, e.allow)
			}
			if c := r.Check(e.id); c.ID != e.id || c.Status != OK {
				t.Errorf("%s is %v on a machine in order: %q", e.id, c.Status, c.Evidence)
			}
		}
	}
}
