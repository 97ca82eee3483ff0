package plan

import (
	"os"
	"path/filepath"
	"sort"
)

// maskedNames are what of /proc shows the host, from the policy table row
// "Masked" (the union of what runc, Docker and Kubernetes mask), and what else
// tells its load, its boot command or its disks. What is the same on every
// machine with this kernel (crypto, filesystems, devices …) stays: each cover
// is a mount, and mounts are most of what a sandbox costs.
var maskedNames = []string{
	"acpi", "asound", "buddyinfo", "bus", "cmdline", "config.gz", "diskstats", "driver", "fs",
	"interrupts", "iomem", "ioports", "irq", "kallsyms", "kcore", "key-users", "keys", "kmsg",
	"kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "modules",
	"pagetypeinfo", "partitions", "pressure", "sched_debug", "schedstat", "scsi", "slabinfo",
	"softirqs", "swaps", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo", "vmstat",
	"zoneinfo",
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
