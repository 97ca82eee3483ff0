// Package plan resolves a policy and the facts of this machine into what will
// happen, or into one refusal that lists every unmet point with its remedy.
//
// A plan is a value: printable, comparable, digestible. Resolving looks at the
// host (the sources of binds, the files of the view) and changes nothing. It
// is the only importer of namespaces, seccompprofile and rootfs.
package plan

import (
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/namespaces"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/preload"
	"github.com/isolate-run/isolate/rootfs"
)

// Plan is what will happen. It is never changed after Resolve made it.
type Plan struct {
	// Digest identifies everything below ("sha256:…"); CellKey what a cell is
	// built from: sandboxes with equal keys can share one.
	Digest  string `json:"digest"`
	CellKey string `json:"cell"`

	// Net is "none", an own network namespace with loopback only, or
	// "restricted" or "full", where the only way out is a process of ours
	// that decides by NetPolicy.
	Net        string              `json:"net"`
	NetPolicy  *egress.Policy      `json:"net_policy,omitempty"` // nil with "none"
	Namespaces []namespaces.Kind   `json:"namespaces"`
	Identity   namespaces.Identity `json:"identity"`

	Root     string      `json:"root"` // "host" or the directory
	View     rootfs.View `json:"view"`
	Proc     Proc        `json:"proc"`
	Home     string      `json:"home"`
	Hostname string      `json:"hostname"`
	Env      []string    `json:"env"` // sorted "K=V"
	// Preload is the interpreter that the cell starts ahead; nil if none is.
	Preload *preload.Spec `json:"preload,omitempty"`
	// Bridge is whether the sandbox has the directory of the tool bridge.
	Bridge bool `json:"bridge,omitempty"`
	// Terminals is whether the sandbox has a devpts of its own.
	Terminals bool `json:"terminals"`

	Profile string `json:"profile"`
	// FilterDigest identifies Filter, the compiled seccomp program.
	FilterDigest string `json:"filter"`
	Filter       []byte `json:"-"`
	// Notify is whether refused calls are reported to us; NotifyKillable
	// whether a reported call ignores other signals than SIGKILL (Linux 5.19).
	Notify         bool `json:"notify"`
	NotifyKillable bool `json:"notify_killable"`

	Limits  Limits   `json:"limits"`
	Rlimits []Rlimit `json:"rlimits"`
	Disk    int64    `json:"disk_bytes"`
	Inodes  int      `json:"inodes"`

	// Weakenings are the consented weakenings that this plan needs.
	Weakenings []policy.Weakening `json:"weakenings"`
}

// Proc is what of /proc is covered.
type Proc struct {
	// PIDsOnly mounts proc with subset=pid: processes, nothing else.
	PIDsOnly    bool     `json:"pids_only"`
	MaskedFiles []string `json:"masked_files,omitempty"`
	MaskedDirs  []string `json:"masked_dirs,omitempty"`
}

// Limits are the limits of the whole process tree.
type Limits struct {
	// By says what enforces Memory, PIDs and CPUs: "cgroup2", "cgroup1",
	// "hybrid" or "rlimits".
	By          string        `json:"by"`
	Memory      int64         `json:"memory_bytes"`
	PIDs        int           `json:"pids"`
	CPUs        float64       `json:"cpus,omitempty"` // 0: not limited
	Wall        time.Duration `json:"wall_ns"`
	CPUTime     time.Duration `json:"cpu_time_ns,omitempty"` // 0: not limited
	Grace       time.Duration `json:"grace_ns,omitempty"`
	Output      int64         `json:"output_bytes"`
	EndOnOutput bool          `json:"end_on_output,omitempty"`
}
