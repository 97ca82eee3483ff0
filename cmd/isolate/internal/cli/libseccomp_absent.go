//go:build !seccomp || !cgo

package cli

// libseccomp is the version of the library this process runs with; a build
// without the tag "seccomp" has none.
func libseccomp() string { return "" }
