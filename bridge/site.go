package bridge

import (
	"context"
	"os"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Site is the bridge of one sandbox, as whoever serves it needs it.
type Site struct {
	// Root has the directories of the bridge, Workspace is where the program's
	// files are. Both stay the giver's, who keeps them open until the service
	// has ended.
	Root, Workspace *os.File
	// Owner is whose the files of the sandbox are; the zero value is the caller.
	Owner dirfd.Owner
	// Hold stops the clock of the run, see Options. Nil means that there is none.
	Hold func() (release func())
	// Journal records the calls. Nil means that nothing does.
	Journal Journal
	// Context is that of Options. Nil means that it adds nothing.
	Context func(context.Context, Record) context.Context
}
