package host

import (
	"os"
	"syscall"
	"testing"
)

const (
	errEPERM  = syscall.EPERM
	errEACCES = syscall.EACCES
)

func TestMain(m *testing.M) {
	if RunProbeChild() == ProbeChildDone {
		os.Exit(0)
	}
	os.Exit(m.Run())
}
