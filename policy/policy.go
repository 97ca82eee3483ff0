// Package policy is what the author of a run allows, as a value.
//
// It decodes strictly (TOML), validates with hints and knows the named
// profiles and weakenings. It does not know this machine: whether the kernel
// can enforce a policy is decided by package plan from package host's facts.
// It needs no kernel and runs on any operating system.
package policy

import (
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/preload"
)

// Policy is what a program may do and how much it may use.
//
// The zero value is the tightest sandbox this project runs ordinary programs
// in: no network, no host file beyond the read-only system directories, an
// environment built from nothing, default limits. Each field grants something
// or sets a limit; a zero limit means its default, never "unlimited".
//
// A Policy is a value: it is read, never changed, by the packages it is
// handed to.
type Policy struct {
	// Profile names the system-call table. Zero is ProfileDefault.
	Profile Profile

	// Rootfs is the directory that becomes the read-only root of the
	// sandbox, an absolute host path. Empty means the host view: the host's
	// /usr and a generated minimal /etc, read-only.
	Rootfs string

	// ReadOnly lists host files and directories the program may read.
	ReadOnly []Bind

	// Env is the environment beyond PATH, HOME, LANG, TMPDIR, USER, LOGNAME and
	// SHELL, which are always set and may be overridden here. Nothing is
	// inherited.
	Env map[string]string

	// Bridge gives the program a directory through which it calls tools of the
	// host. Zero is NoBridge. A policy file cannot set it: it comes with the
	// tools that a program is given.
	Bridge Bridge

	// Preload has an interpreter started ahead, with modules imported, from
	// which programs are forked: the memory of the sandboxes of one such policy
	// is laid out alike (docs/preload.md). Zero is none.
	Preload preload.Spec

	// Net is what the program may reach. Zero is no network: a namespace of its
	// own with loopback.
	Net egress.Policy

	// Hostname inside. Empty means DefaultHostname.
	Hostname string

	// Memory is the limit of the whole process tree, tmpfs included, in
	// bytes. Zero means DefaultMemory.
	Memory Size
	// CPUs is the share of processors in units of one processor, for
	// example 0.5 or 2. Zero means not limited: the host's scheduler decides.
	CPUs float64
	// PIDs is the most processes and threads that exist at once. Zero means
	// DefaultPIDs.
	PIDs int
	// Disk is what /workspace, /tmp and /dev/shm hold together, in bytes.
	// Zero means DefaultDisk.
	Disk Size
	// Inodes is how many files and directories they hold together. Zero
	// means DefaultInodes.
	Inodes int
	// Files is the number of open descriptors of one process
	// (RLIMIT_NOFILE). Zero means DefaultFiles.
	Files int
	// Output is what is kept of each of stdout and stderr, in bytes: the
	// first and the last half of it. The rest is drained, counted and
	// dropped. Zero means DefaultOutput.
	Output Size
	// EndOnOutput ends the run with reason "output" when a stream passes
	// Output, in place of draining it.
	EndOnOutput EndOnOutput

	// Wall is the longest a run may take. Zero means DefaultWall.
	Wall time.Duration
	// CPUTime is the most processor time of the whole tree. Zero means not
	// limited beyond what Wall allows.
	CPUTime time.Duration
	// Grace is how long the program has between SIGTERM and SIGKILL when a
	// time limit or a cancelled context ends it. Zero means SIGKILL at once.
	Grace time.Duration

	// Allow lists the weakenings the author consents to. A weakening that is
	// needed and not listed is a refusal; one that is listed and used is
	// recorded in the result.
	Allow []Weakening
}

// Bind is a host path shown read-only inside.
type Bind struct {
	// Source is an absolute host path.
	Source string
	// Target is the absolute path inside. Empty means the same as Source.
	Target string
}

// Defaults of the limits, from the product's issue 2 ("Defaults").
const (
	DefaultMemory   = 512 * MiB
	DefaultPIDs     = 128
	DefaultDisk     = 256 * MiB
	DefaultInodes   = 65536
	DefaultFiles    = 1024
	DefaultOutput   = 16 * MiB
	DefaultWall     = 60 * time.Second
	DefaultHostname = "sandbox"
)

// Profile names a system-call table of package seccompprofile.
type Profile int

// The profiles, tightest last.
const (
	// ProfileDefault runs ordinary programs: interpreters, compilers, tools.
	ProfileDefault Profile = iota
	// ProfileCompat allows what containers usually allow, with the same
	// special rules as ProfileDefault.
	ProfileCompat
	// ProfileStrict allows the calls a survey of interpreters and compilers
	// was seen to need, and AF_UNIX sockets only.
	ProfileStrict
)

// Bridge says how a program reaches the tools of the host.
type Bridge int

// The bridges.
const (
	NoBridge Bridge = iota
	// FileBridge is a directory for requests and answers as files.
	FileBridge
)

// EndOnOutput says what passing the output limit does to the run.
type EndOnOutput int

// The answers to a stream passing its limit.
const (
	// KeepRunning drains and counts what is over the limit. It is the zero value.
	KeepRunning EndOnOutput = iota
	// EndRun kills the program; the reason is "output".
	EndRun
)

// Weakening names a guarantee the author agrees to do without.
type Weakening string

// The weakenings. Each needs consent by exactly this name.
const (
	// WeakLimits runs without a usable memory or pids controller: rlimits
	// and the pid namespace only.
	WeakLimits Weakening = "weak-limits"
	// UnsafeBinds shows a host path that is on the list of paths that give
	// the host away: sockets of daemons, the runtime directory, /, /home, /proc.
	UnsafeBinds Weakening = "unsafe-binds"
	// HostPorts lets the program reach ports of this machine's loopback, where
	// services trust whoever can connect.
	HostPorts Weakening = "host-ports"
	// NoDenialRecords runs without the recording of refused system calls
	// where the kernel has no user notification; they are still refused.
	NoDenialRecords Weakening = "no-denial-records"
)

// Weakenings lists every name --allow takes, sorted.
var Weakenings = []Weakening{HostPorts, NoDenialRecords, UnsafeBinds, WeakLimits}
