// Package host is what this machine can do, as a value; it is behind
// `isolate doctor`.
//
// Probe asks the kernel by doing: short-lived children of our own make the
// namespaces, mounts, filters and control groups a sandbox needs and report
// how far they came. Blocking is the cheap part that every run performs before
// it starts anything, and Explain says why building a sandbox failed. All
// three use the same words, which stand in words.go. DetectCgroups finds the
// control groups the limits can be put on.
//
// The package repairs nothing, changes no setting, and what its probes make is
// gone when they return. It neither knows policies nor decides what is
// acceptable: packages plan and isolate do that.
//
// It runs on any Linux kernel, also on one too old or too restricted for a
// sandbox, and says so. The probing children are the program itself: its main
// must call RunProbeChild (through isolate.Init) before anything else.
package host
