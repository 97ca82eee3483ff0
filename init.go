package isolate

import (
	"os"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/host"
)

// Init is the re-exec door. It must be the first statement of main, and of
// TestMain in tests that use the package. In an ordinary process it returns at
// once; in a process that was started to build a cell or to probe this machine
// it never returns.
func Init() {
	container.Init()
	if host.RunProbeChild() == host.ProbeChildDone {
		os.Exit(0)
	}
}
