//go:build linux && cgo && seccomp

package seccompprofile

import (
	"testing"

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
		if _, err := tableOf(policy.ProfileDefault, "amd64").compile(); err != nil {
			b.Fatal(err)
		}
	}
}
