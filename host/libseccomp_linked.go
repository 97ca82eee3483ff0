//go:build seccomp && cgo

package host

// #cgo pkg-config: libseccomp
// #include <seccomp.h>
import "C"

import (
	"fmt"

	seccomp "github.com/seccomp/libseccomp-golang"
)

// linkedLibseccomp is the library this program runs with; nil if it was built
// without.
func linkedLibseccomp(names []string) *Libseccomp {
	l := &Libseccomp{Built: fmt.Sprintf("%d.%d.%d", C.SCMP_VER_MAJOR, C.SCMP_VER_MINOR, C.SCMP_VER_MICRO)}
	major, minor, micro := seccomp.GetLibraryVersion()
	l.Loaded = fmt.Sprintf("%d.%d.%d", major, minor, micro)
	if api, err := seccomp.GetAPI(); err == nil {
		l.API = int(api)
	}
	for _, n := range names {
		if _, err := seccomp.GetSyscallFromName(n); err != nil {
			l.Unknown = append(l.Unknown, n)
		}
	}
	return l
}
