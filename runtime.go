package isolate

import (
	"context"
	"errors"

	"github.com/isolate-run/isolate/plan"
)

var errNotYet = errors.New("not built yet")

// Init is the re-exec door. It must be the first statement of main, and of
// TestMain in tests that use the package. In an ordinary process it returns at
// once; in a process that libcontainer started to build a cell it never returns.
func Init() {}

// Runtime builds sandboxes and keeps what makes them start fast. It is safe
// for concurrent use.
type Runtime struct{}

// Open prepares a Runtime: it checks the blocking guarantees of this machine,
// makes the run-time directory and removes what dead processes left there.
// The error of a machine that cannot give the guarantees is a *plan.Refusal.
func Open(ctx context.Context, o Options) (*Runtime, error) { return nil, errNotYet }

// Plan says what Run would do, without doing it. A policy that cannot be
// enforced here gives a *plan.Refusal.
func (r *Runtime) Plan(ctx context.Context, p Policy) (plan.Plan, error) {
	return plan.Plan{}, errNotYet
}

// Run runs one program in a sandbox of its own.
func (r *Runtime) Run(ctx context.Context, p Policy, c Cmd) (Result, error) {
	return Result{}, errNotYet
}

// Sandbox makes a sandbox that is kept until Close.
func (r *Runtime) Sandbox(ctx context.Context, p Policy) (*Sandbox, error) { return nil, errNotYet }

// Close ends all sandboxes and cells and proves that nothing is left of them.
func (r *Runtime) Close() error { return errNotYet }

// Sandbox is a kept sandbox: files and /tmp live from one Run to the next.
type Sandbox struct{}

// Run runs a program in the sandbox. Several may run at once.
func (s *Sandbox) Run(ctx context.Context, c Cmd) (Result, error) { return Result{}, errNotYet }

// Kill ends every program in the sandbox; the sandbox stays usable.
func (s *Sandbox) Kill() error { return errNotYet }

// CopyIn copies host files into the workspace.
func (s *Sandbox) CopyIn(ctx context.Context, in []Input) (Manifest, error) {
	return Manifest{}, errNotYet
}

// CopyOut copies the workspace to a host directory.
func (s *Sandbox) CopyOut(ctx context.Context, dir string) (Manifest, error) {
	return Manifest{}, errNotYet
}

// Close ends the sandbox and frees all it held. It is idempotent.
func (s *Sandbox) Close() error { return errNotYet }
