/* A38 B26: what of /proc and /sys shows the host; source: Docker's and Kubernetes' mask lists, sandlock procfs tests */
#include "escape.h"
#include <dirent.h>

/* hidden: it is absent, may not be read, or has nothing in it. */
static void look(const char *path)
{
	char b[4096];
	int n = 0;
	DIR *d = opendir(path);
	if (d) {
		for (struct dirent *e; (e = readdir(d));)
			n += e->d_name[0] != '.';
		closedir(d);
	} else {
		int fd = open(path, O_RDONLY | O_NONBLOCK);
		n = fd < 0 ? 0 : read(fd, b, sizeof b);
		close(fd);
	}
	if (n > 0)
		printf("%s: SHOWS %d\n", path, n);
	else
		printf("%s: hidden\n", path);
}

int main(void)
{
	static const char *const names[] = {
		"/proc/acpi", "/proc/asound", "/proc/buddyinfo", "/proc/bus", "/proc/cmdline",
		"/proc/config.gz", "/proc/diskstats",
		"/proc/driver", "/proc/fs", "/proc/interrupts", "/proc/iomem",
		"/proc/ioports", "/proc/irq", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys",
		"/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
		"/proc/locks", "/proc/mdstat", "/proc/modules", "/proc/pagetypeinfo",
		"/proc/partitions", "/proc/pressure/cpu", "/proc/sched_debug", "/proc/schedstat", "/proc/scsi",
		"/proc/slabinfo", "/proc/softirqs", "/proc/swaps", "/proc/sysrq-trigger", 
		"/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/vmstat",
		"/proc/zoneinfo", "/proc/sys/fs/binfmt_misc", "/sys/firmware", "/sys/kernel", "/sys/class",
		"/sys/bus", "/sys/block", "/sys/module", "/sys/power", "/sys/devices/virtual", "/sys/devices/pci0000:00",
		"/sys/devices/system/cpu/cpu0", "/sys/devices/system/node", "/sys/hypervisor",
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		look(names[i]);
	return 0;
}
