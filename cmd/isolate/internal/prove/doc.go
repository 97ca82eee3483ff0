// Package prove shows on this machine what a sandbox keeps in. A program tries
// to reach listeners that isolate itself holds, the network, the kernel's side
// doors, and a tool: once outside, where it has to reach the listeners, or the
// rest would prove nothing; once in a sandbox, where it must not. Every refusal
// that can be recorded has to be in a log that then verifies.
//
// The program is the caller's own executable, copied into the sandbox: it is on
// every machine that has isolate, and it has no interpreter to miss. What it
// tries is told to it on standard input, so that by itself it tries nothing.
//
// It does not measure, it is no test suite (that is test/hostile), and it sends
// nothing to anybody: addresses other than loopback are tried in the sandbox
// only, and only after loopback turned out to be closed. It needs Linux through
// package isolate.
package prove
