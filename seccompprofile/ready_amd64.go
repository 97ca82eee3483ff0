//go:build linux

package seccompprofile

import (
	_ "embed"

	"github.com/isolate-run/isolate/policy"
)

// The compiled programs. testdata/*.golden is the same in readable form; both
// are written by "go test -tags seccomp ./seccompprofile -update".
var (
	//go:embed compiled/default.amd64.bpf
	readyDefault []byte
	//go:embed compiled/compat.amd64.bpf
	readyCompat []byte
	//go:embed compiled/strict.amd64.bpf
	readyStrict []byte
)

// ready is the compiled program of a profile, nil where there is none.
func ready(p policy.Profile) []byte {
	switch p {
	case policy.ProfileDefault:
		return readyDefault
	case policy.ProfileCompat:
		return readyCompat
	case policy.ProfileStrict:
		return readyStrict
	}
	return nil
}
