//go:build !seccomp || !cgo

package host

// linkedLibseccomp is the library this program runs with; nil if it was built
// without.
func linkedLibseccomp([]string) *Libseccomp { return nil }
