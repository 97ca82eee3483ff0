package isolate

import (
	"context"
	"io"
	"os"

	"github.com/isolate-run/isolate/workspace"
)

// OpenFile opens a file of the workspace for reading; path is relative to
// /workspace. Links are not followed. A program that runs may change the file
// while it is read.
func (s *Sandbox) OpenFile(path string) (*os.File, error) {
	dir, err := s.box.workspace()
	if err != nil {
		return nil, err
	}
	return workspace.OpenFile(dir, path)
}

// PutFile writes a file of the workspace, whole or not at all, and makes the
// directories on the way. mode are permission bits.
func (s *Sandbox) PutFile(ctx context.Context, path string, mode uint32, from io.Reader) (workspace.Entry, error) {
	dir, err := s.box.workspace()
	if err != nil {
		return workspace.Entry{}, err
	}
	e, err := workspace.Put(ctx, dir, path, mode, from, s.box.inLimits())
	awaitForks()
	return e, err
}

// ListFiles lists a directory of the workspace, "" being /workspace itself: at
// most limit entries, by name. more says that there are others.
func (s *Sandbox) ListFiles(path string, limit int) (list []workspace.Listed, more bool, err error) {
	dir, err := s.box.workspace()
	if err != nil {
		return nil, false, err
	}
	return workspace.List(dir, path, limit)
}

// Plan is the digest of the plan in force.
func (s *Sandbox) Plan() string { return s.box.plan.Digest }
