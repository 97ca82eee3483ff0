//go:build linux

package seccompprofile

import "golang.org/x/sys/unix"

// numbers are the calls that are newer than libseccomp 2.5.4. A table may name
// what the library knows or what stands here; any other name is an error, never
// skipped. Where the library knows one as well, both must agree.
var numbers = map[string]int{
	"cachestat":        unix.SYS_CACHESTAT,
	"fchmodat2":        unix.SYS_FCHMODAT2,
	"map_shadow_stack": unix.SYS_MAP_SHADOW_STACK,
	"mseal":            unix.SYS_MSEAL,
	"setxattrat":       unix.SYS_SETXATTRAT,
	"getxattrat":       unix.SYS_GETXATTRAT,
	"listxattrat":      unix.SYS_LISTXATTRAT,
	"removexattrat":    unix.SYS_REMOVEXATTRAT,
}
