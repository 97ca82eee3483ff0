//go:build linux

package seccompprofile

import (
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/isolate-run/isolate/policy"
)

// The compiled programs, one instruction of 8 bytes a line, in hexadecimal so
// that a change can be reviewed. testdata/*.golden is the same in readable form; both
// are written by "go test -tags seccomp ./seccompprofile -update".
var (
	//go:embed compiled/default.amd64.hex
	readyDefault string
	//go:embed compiled/compat.amd64.hex
	readyCompat string
	//go:embed compiled/strict.amd64.hex
	readyStrict string
)

// ready is the compiled program of a profile, nil where there is none.
func ready(p policy.Profile) []byte {
	text, ok := map[policy.Profile]string{
		policy.ProfileDefault: readyDefault,
		policy.ProfileCompat:  readyCompat,
		policy.ProfileStrict:  readyStrict,
	}[p]
	if !ok {
		return nil
	}
	bpf, err := hex.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil // then it is compiled at run time; TestGolden keeps the files whole
	}
	return bpf
}
