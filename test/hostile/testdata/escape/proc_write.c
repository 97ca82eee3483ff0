/* A37 B27: writing settings of the kernel, of itself and of init; source: sunwalker hidden_procfs, CDK procfs, runtime-tools */
#include "escape.h"

static long put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	long n = write(fd, text, strlen(text));
	close(fd);
	return n;
}

#define PUT(path, text) TRYAS(path, put(path, text))

/* which error a file that not every kernel has gives is not told */
#define PUTANY(path, text) printf("%s: %s\n", path, put(path, text) < 0 ? "denied" : "WRITTEN")

int main(void)
{
	PUT("/proc/sys/kernel/core_pattern", "|/workspace/evil");
	PUTANY("/proc/sys/kernel/modprobe", "/workspace/evil");
	PUTANY("/proc/sys/kernel/hotplug", "/workspace/evil");
	PUT("/proc/sys/kernel/hostname", "evil");
	PUT("/proc/sys/kernel/domainname", "evil");
	PUTANY("/proc/sys/kernel/sysrq", "1");
	PUT("/proc/sys/kernel/shmmax", "1");
	PUTANY("/proc/sys/kernel/ns_last_pid", "1");
	PUTANY("/proc/sys/kernel/yama/ptrace_scope", "0");
	PUT("/proc/sys/vm/overcommit_memory", "1");
	PUT("/proc/sys/vm/drop_caches", "3");
	PUT("/proc/sys/fs/file-max", "1");
	PUTANY("/proc/sys/fs/binfmt_misc/register", ":x:M::x::/workspace/evil:");
	PUT("/proc/sys/net/ipv4/ip_forward", "1");
	PUT("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	PUT("/proc/sys/user/max_user_namespaces", "100");
	PUT("/proc/sys/user/max_inotify_instances", "100000");
	PUTANY("/proc/sysrq-trigger", "h");
	PUTANY("/proc/irq/default_smp_affinity", "1");
	PUTANY("/proc/bus/pci/00", "x");
	PUTANY("/proc/mtrr", "x");
	PUT("/proc/self/oom_score_adj", "-1000");
	PUT("/proc/self/oom_adj", "-17");
	PUT("/proc/self/uid_map", "0 0 1");
	PUT("/proc/self/gid_map", "0 0 1");
	PUT("/proc/self/projid_map", "0 0 1");
	PUT("/proc/self/setgroups", "allow");
	PUT("/proc/self/timens_offsets", "monotonic 1 0");
	PUT("/proc/self/clear_refs", "9"); /* no such value: only the right to ask */
	PUT("/proc/1/oom_score_adj", "-1000");
	PUTANY("/proc/1/comm", "evil");
	PUT("/proc/1/uid_map", "0 0 1");
	PUT("/proc/1/mem", "evil");
	PUT("/sys/fs/cgroup/memory.max", "max");
	PUT("/sys/fs/cgroup/cgroup.procs", "0");
	PUT("/sys/fs/cgroup/release_agent", "/workspace/evil");
	PUT("/sys/fs/cgroup/devices/devices.allow", "a");
	PUT("/sys/power/state", "mem");
	return 0;
}
