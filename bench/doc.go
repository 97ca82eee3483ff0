// Package bench measures start latency and throughput beside other ways to start
// a program, tool calls, and what keeping many sandboxes costs, each
// in one interleaved run: `go test -tags seccomp -bench Start ./bench`.
//
// It has no code of its own beside its benchmarks; a figure is worth something
// only as a ratio within one run on one machine. It needs what package
// isolate needs, and measures bubblewrap if it is installed.
package bench
