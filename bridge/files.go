package bridge

import (
	"os"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Handles are the directories of one bridge, of one mount but for Workspace.
// They were opened before any program ran and are closed by FileServer.Close.
type Handles struct {
	// Flat is Dir itself, Req and Resp its parts. Claim is a directory of the
	// same file system that no program can see.
	Flat, Req, Resp, Claim *os.File
	// Workspace is where the program's files are; results that are too big
	// for an answer go there. It is not closed by the bridge.
	Workspace *os.File
	// Owner is whose the files are to be. Zero means the caller's.
	Owner dirfd.Owner
}

// Watcher tells the file servers of a process that something has changed. All
// share one inotify instance, of which a user has few.
type Watcher struct{}

// NewWatcher makes a watcher. Close ends it.
func NewWatcher() (*Watcher, error) { return &Watcher{}, nil }

// Close ends the watcher.
func (w *Watcher) Close() error { return nil }

// FileServer serves requests that come as files.
type FileServer struct{}

// ServeFiles begins to serve requests from h through b. It takes h over.
func ServeFiles(w *Watcher, h Handles, b *Broker) (*FileServer, error) { return &FileServer{}, nil }

// Close ends the service and closes the handles. It does not close the broker.
// It is idempotent.
func (s *FileServer) Close() error { return nil }
