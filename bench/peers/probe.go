package peers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/isolate-run/isolate/bench/result"
)

// MaxSaid bounds what is read of a probe, in bytes.
const MaxSaid = 16 << 10

// Marker is a variable of the caller's environment that a program must not see.
const Marker = "ISOLATE_BENCH_MARKER"

// Probe is a program that says what it sees of the layers around it. It
// changes nothing. marker is a file of the host that it looks for.
func Probe(marker string) []string {
	const script = `for n in user mnt pid net ipc uts cgroup; do echo "ns-$n $(readlink /proc/self/ns/$n)"; done
while read -r k v; do case $k in NoNewPrivs:|Seccomp:|CapEff:) echo "$k $v";; esac; done </proc/self/status
if test -w /usr; then echo "usr writable"; else echo "usr read-only"; fi
if test -e "$1"; then echo "file seen"; else echo "file hidden"; fi
if test -n "$` + Marker + `"; then echo "env seen"; else echo "env hidden"; fi
echo "end ."`
	return []string{"/bin/sh", "-c", script, "sh", marker}
}

// Namespaces are those of the caller, as Seen compares with them.
func Namespaces() (map[string]string, error) {
	own := map[string]string{}
	for kind := range namespaces {
		name, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, fmt.Errorf("cannot read our own namespaces: %w", err)
		}
		own[kind] = name
	}
	return own, nil
}

var namespaces = map[string]result.Layer{
	"user": result.UserNS, "mnt": result.MountNS, "pid": result.PIDNS, "net": result.NetNS, "ipc": result.IPCNS, "uts": result.UTSNS, "cgroup": result.CgroupNS,
}

// Seen reads what Probe said and gives the layers it saw. What is not of the
// probe's form is an error, not a layer: whatever runs the probe could say it.
func Seen(said []byte, own map[string]string) ([]result.Layer, error) {
	if len(said) > MaxSaid {
		return nil, fmt.Errorf("cannot read the probe: it said more than %d bytes", MaxSaid)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(said)) {
		key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, again := values[key]; !found || again {
			return nil, fmt.Errorf("cannot read the probe: it said %.80q", line)
		}
		values[key] = strings.TrimSpace(value)
	}
	if values["end"] != "." {
		return nil, errors.New("cannot read the probe: it did not come to its end")
	}
	has := map[result.Layer]bool{
		result.Seccomp:     values["Seccomp:"] == "2", // SECCOMP_MODE_FILTER
		result.NoNewPrivs:  values["NoNewPrivs:"] == "1",
		result.ReadOnlyUsr: values["usr"] == "read-only",
		result.HiddenFiles: values["file"] == "hidden",
		result.CleanEnv:    values["env"] == "hidden",
	}
	if caps, err := strconv.ParseUint(values["CapEff:"], 16, 64); err == nil {
		has[result.NoCaps] = caps == 0
	}
	for kind, layer := range namespaces {
		name := values["ns-"+kind]
		has[layer] = isNamespace(kind, name) && name != own[kind]
	}
	return slices.DeleteFunc(slices.Clone(result.Layers), func(l result.Layer) bool { return !has[l] }), nil
}

// isNamespace says whether text is what a link below /proc/self/ns reads.
func isNamespace(kind, text string) bool {
	number, found := strings.CutPrefix(text, kind+":[")
	number, closed := strings.CutSuffix(number, "]")
	_, err := strconv.ParseUint(number, 10, 64)
	return found && closed && err == nil
}
