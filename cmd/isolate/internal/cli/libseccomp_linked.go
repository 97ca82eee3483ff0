//go:build seccomp && cgo

package cli

import (
	"fmt"

	seccomp "github.com/seccomp/libseccomp-golang"
)

// libseccomp is the version of the library this process runs with.
func libseccomp() string {
	major, minor, micro := seccomp.GetLibraryVersion()
	return fmt.Sprintf("%d.%d.%d", major, minor, micro)
}
