//go:build !cgo

package keeper

// The far side is C, so nothing of isolate can be built without cgo. That the
// compiler stops at this name, before anything else is missing, says so.
var _ = isolate_needs_cgo__install_gcc_and_build_with_CGO_ENABLED_1
