// Package testenv gates tests on what the machine they run on can do.
//
// A test says what it needs with Require and is skipped, with the name of what
// is missing, where that is not there. A lane that promises features lists them
// in ISOLATE_REQUIRE, and there the same test fails. Features are probed by
// doing the thing, once per test binary, never by a version number.
//
// It does not set anything up, and nothing outside tests imports it. It needs
// no particular kernel: what a kernel lacks is a missing feature.
package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Feature names something a test may need.
type Feature string

// The features. The names are what ISOLATE_REQUIRE lists, separated by commas.
const (
	// UserNS is a user namespace in which the caller may mount.
	UserNS Feature = "userns"
	// Cgroup1 and Cgroup2 are places in that version's hierarchies where the
	// caller may limit both memory and pids; Cgroup is either. On version 2
	// the place may have to be asked of the systemd user manager.
	Cgroup1 Feature = "cgroup1"
	Cgroup2 Feature = "cgroup2"
	Cgroup  Feature = "cgroup"
	// Memory, PIDs and CPU are one controller each, in either version.
	Memory Feature = "memory"
	PIDs   Feature = "pids"
	CPU    Feature = "cpu"
	// SystemdUser is a systemd user manager of the caller that answers.
	SystemdUser Feature = "systemd-user"
	// Root and Unprivileged say who runs the test.
	Root         Feature = "root"
	Unprivileged Feature = "unprivileged"
	// GCC compiles and links, Python3 and Node run a one-line program.
	GCC     Feature = "gcc"
	Python3 Feature = "python3"
	NumPy   Feature = "numpy" // as a sandbox sees it
	Node    Feature = "node"
	// Bwrap is a bubblewrap that can make its own namespaces.
	Bwrap Feature = "bwrap"
	// SubUID is a range of subordinate ids that newuidmap really maps.
	SubUID Feature = "subuid"
	// OverlayUserNS is an overlay mount inside a user namespace.
	OverlayUserNS Feature = "overlay-userns"
	// NetBed is a pair of network namespaces of the test's own, as test/net/bed
	// makes them.
	NetBed Feature = "netbed"
	// VM is the guest of test/vm, whose settings a test may change.
	VM Feature = "vm"
	// IPv6Loopback is a TCP connection over ::1.
	IPv6Loopback Feature = "ipv6-loopback"
)

// probes say nil when the feature is there, else why it is not.
var probes = map[Feature]func() error{
	UserNS:        userNS,
	Cgroup1:       func() error { return cgroup1("memory", "pids") },
	Cgroup2:       func() error { return cgroup2("memory", "pids") },
	Cgroup:        func() error { return eitherCgroup("memory", "pids") },
	Memory:        func() error { return eitherCgroup("memory") },
	PIDs:          func() error { return eitherCgroup("pids") },
	CPU:           func() error { return eitherCgroup("cpu") },
	SystemdUser:   systemdUser,
	Root:          root,
	Unprivileged:  unprivileged,
	GCC:           gcc,
	NumPy:         func() error { return try("env", "PATH=/usr/local/bin:/usr/bin", "python3", "-c", "import numpy") },
	Python3:       func() error { return try("python3", "-c", "import json") },
	Node:          func() error { return try("node", "-e", "0") },
	Bwrap:         bwrap,
	SubUID:        subUID,
	OverlayUserNS: overlayUserNS,
	IPv6Loopback:  ipv6Loopback,
	NetBed:        netBed,
	VM:            inVM,
}

// Require skips the test when a feature is missing here, or fails it when
// ISOLATE_REQUIRE lists that feature. The message names the feature and what
// the probe met.
func Require(t testing.TB, features ...Feature) {
	t.Helper()
	require(t, os.Getenv("ISOLATE_REQUIRE"), probe, features)
}

func require(t testing.TB, promised string, probe func(Feature) error, features []Feature) {
	t.Helper()
	promises, err := parse(promised)
	if err != nil {
		t.Fatalf("cannot read ISOLATE_REQUIRE: %v", err)
	}
	var missing []string
	broken := false
	for _, f := range features {
		err := probe(f)
		if err == nil {
			continue
		}
		missing = append(missing, fmt.Sprintf("%s: %v", f, err))
		broken = broken || slices.Contains(promises, f)
	}
	switch {
	case broken:
		t.Fatalf("missing, though ISOLATE_REQUIRE promises it: %s", strings.Join(missing, "; "))
	case len(missing) > 0:
		t.Skipf("needs %s", strings.Join(missing, "; "))
	}
}

// parse reads a list of features. A name nobody probes is an error: it would
// be a promise that is never checked.
func parse(list string) ([]Feature, error) {
	var features []Feature
	for name := range strings.SplitSeq(list, ",") {
		f := Feature(strings.TrimSpace(name))
		if f == "" {
			continue
		}
		if _, known := probes[f]; !known && !strings.HasPrefix(string(f), toolPrefix) {
			return nil, fmt.Errorf("no feature is named %q", f)
		}
		features = append(features, f)
	}
	return features, nil
}

var cache struct {
	sync.Mutex
	answers map[Feature]error
}

// probe answers for a feature, from memory after the first time.
func probe(f Feature) error {
	do, known := probes[f]
	if tool, ok := strings.CutPrefix(string(f), toolPrefix); ok {
		do, known = func() error { return inUsr(tool) }, true
	}
	if !known {
		return fmt.Errorf("no feature has this name")
	}
	cache.Lock()
	defer cache.Unlock()
	if err, done := cache.answers[f]; done {
		return err
	}
	if cache.answers == nil {
		cache.answers = map[Feature]error{}
	}
	err := do()
	cache.answers[f] = err
	return err
}

const toolPrefix = "tool:"

// Tool is the feature of a program that a sandbox with the host view can run:
// one below /usr.
func Tool(name string) Feature { return Feature(toolPrefix + name) }

// inUsr looks in the directories that are PATH in a sandbox, and in Go's own.
func inUsr(tool string) error {
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/usr/local/go/bin"} {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, tool))
		if err == nil && (strings.HasPrefix(real, "/usr/") || strings.HasPrefix(real, "/etc/alternatives/")) {
			return nil
		}
	}
	return fmt.Errorf("no program %s below /usr", tool)
}
