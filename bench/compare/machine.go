package compare

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bench/result"
)

// thisMachine describes this machine; what cannot be read is left out.
func thisMachine() result.Machine {
	m := result.Machine{Processors: runtime.NumCPU(), UID: os.Getuid(), Memory: memory()["MemTotal"]}
	m.Processor = fields("/proc/cpuinfo")["model name"]
	if m.Processor == "" {
		m.Processor = runtime.GOARCH
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// fields are the lines "NAME: VALUE" of a file, the first of each name; none if
// it cannot be read.
func fields(file string) map[string]string {
	all := map[string]string{}
	f, err := os.Open(file)
	if err != nil {
		return all
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		if name = strings.TrimSpace(name); all[name] == "" {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}

// memory is what /proc/meminfo says, in bytes.
func memory() map[string]int64 {
	all := map[string]int64{}
	for name, value := range fields("/proc/meminfo") {
		if n, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64); err == nil {
			all[name] = n << 10
		}
	}
	return all
}

// usedMemory is what the machine cannot give away, kernel memory included.
func usedMemory() int64 {
	m := memory()
	return m["MemTotal"] - m["MemAvailable"]
}

// descriptors is how many this process has open; 0 is unknown.
func descriptors() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}
