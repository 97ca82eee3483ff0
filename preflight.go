package isolate

import "context"

// preflight checks the blocking guarantees of this machine.
func preflight(ctx context.Context, dir string) error { return nil }

// explain replaces the error of a cell that could not be built by what is
// missing on this machine, if that can be found.
func explain(ctx context.Context, dir string, err error) error { return err }
