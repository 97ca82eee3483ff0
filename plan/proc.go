package plan

import (
	"os"
	"path/filepath"
	"sort"
)

// maskedNames are what of /proc shows the host, from the policy table row
// "Masked": the union of what runc, Docker and Kubernetes mask and nosy files.
var maskedNames = []string{
	"acpi", "asound", "bus", "buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "crypto",
	"devices", "diskstats", "dma", "driver", "dynamic_debug", "execdomains", "fb", "fs", "interrupts",
	"iomem", "ioports", "irq", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup",
	"kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "misc", "modules", "mtrr",
	"pagetypeinfo", "partitions", "pressure", "sched_debug", "schedstat", "scsi", "slabinfo",
	"softirqs", "swaps", "sysrq-trigger", "sysvipc", "timer_list", "timer_stats", "tty", "vmallocinfo",
	"vmstat", "zoneinfo",
}

// ProcMasks lists the files and directories below proc (normally "/proc")
// that a sandbox must cover. Files that only their owner may open are left
// out: the owner is the host's root, whom nobody inside is.
func ProcMasks(proc string) (files, dirs []string) {
	for _, name := range maskedNames {
		fi, err := os.Lstat(filepath.Join(proc, name))
		if err != nil {
			continue
		}
		switch {
		case fi.IsDir():
			if fi.Mode().Perm()&0o005 != 0 {
				dirs = append(dirs, "/proc/"+name)
			}
		case fi.Mode().IsRegular() && fi.Mode().Perm()&0o006 != 0:
			files = append(files, "/proc/"+name)
		}
	}
	sort.Strings(files)
	sort.Strings(dirs)
	return files, dirs
}
