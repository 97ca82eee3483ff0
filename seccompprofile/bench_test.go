//go:build linux && cgo && seccomp

package seccompprofile

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/policy"
)

// BenchmarkBuild is what the first Compile of a process costs.
func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := build(policy.ProfileDefault, notifying); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLibseccomp is what it would cost without the compiled program.
func BenchmarkLibseccomp(b *testing.B) {
	for b.Loop() {
		if _, err := tableOf(policy.ProfileDefault, runtime.GOARCH).compile(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is what the kernel takes to load a filter with a listener, in the
// middle: one instruction, what libseccomp makes of the default profile, and what
// is loaded, in turn.
func BenchmarkLoad(b *testing.B) {
	table := tableOf(policy.ProfileDefault, runtime.GOARCH)
	calls, err := resolve(table)
	if err != nil {
		b.Fatal(err)
	}
	long, err := assemble(table, calls)
	if err != nil {
		b.Fatal(err)
	}
	filters := [][]byte{
		encode([]instruction{{code: unix.BPF_RET | unix.BPF_K, k: unix.SECCOMP_RET_ALLOW}}),
		long,
		must(Compile(policy.ProfileDefault)).BPF,
	}
	took := make([][]time.Duration, len(filters))
	for b.Loop() {
		for i, bpf := range filters {
			d, err := load(bpf)
			if err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], d)
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, bpf := range filters {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1000, fmt.Sprintf("µs/%d-instructions", len(bpf)/instructionSize))
	}
}

// load loads a filter into a thread that ends.
func load(bpf []byte) (took time.Duration, err error) {
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: nothing else may run under the filter
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		prog := unix.SockFprog{Len: uint16(len(bpf) / instructionSize), Filter: (*unix.SockFilter)(unsafe.Pointer(&bpf[0]))}
		start := time.Now()
		fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
		took = time.Since(start)
		if errno != 0 {
			err = errno
			return
		}
		err = unix.Close(int(fd))
	}()
	<-done
	return took, err
}
