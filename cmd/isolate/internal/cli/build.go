package cli

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/host"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// buildStep is what runs before the program, in a sandbox of its own: it may
// have a network, and what it leaves is read-only for the program.
type buildStep struct {
	command string // of the shell; empty means that there is none
	net     egress.Policy
}

const (
	// buildDir is where the program sees what the build step left in /workspace.
	buildDir = "/build"
	// buildTime is how long the step may take if --time does not say.
	buildTime = 10 * time.Minute
)

// buildFlags are run's alone.
func buildFlags() []flagSpec {
	return []flagSpec{
		{name: "build", kind: "COMMAND"},
		{name: "build-net", kind: "MODE|allow:HOST,...|host:PORT", offers: egress.Modes()},
		{name: "build-preset", kind: "NAME", offers: egress.Presets()},
	}
}

// readBuild reads the build step.
func (r *reader) readBuild() {
	b := &r.request.build
	read(r, "build", &b.command, notEmpty)
	b.net = r.netOf("build-net", "build-preset")
	if b.command == "" && b.net.Mode != egress.ModeNone {
		r.add(plan.Problem{What: "cannot use --build-net without --build", Rule: "it is the network of the build step", Remedy: "add --build COMMAND, or use --net for the program itself"})
	}
}

// buildPolicy is that of the build step: the program's, with a network and a
// time of its own.
func (r request) buildPolicy() policy.Policy {
	p := r.policy
	p.Net = r.build.net
	p.Allow = consented(p.Allow, p.Net)
	if p.Wall == 0 {
		p.Wall = buildTime
	}
	return p
}

// build runs the build step and makes what it left part of the request. A
// result that is not nil is that of a step that failed: the program must not run.
func (a *app) build(i *interrupts, rt runtime, r *request) (*isolate.Result, func(), error) {
	dir, err := os.MkdirTemp("", "isolate-build-")
	if err != nil {
		return nil, func() {}, fmt.Errorf("cannot make a directory for the build step: %w", err)
	}
	remove := func() { os.RemoveAll(dir) }
	out := filepath.Join(dir, "out")
	env := map[string]string{"PIP_TARGET": workspaceDir + "/site-packages", "npm_config_cache": "/tmp/npm"}
	maps.Copy(env, r.cmd.Env)
	// what it prints is not the program's output
	res, err := rt.Run(i.ctx, r.buildPolicy(), isolate.Cmd{Args: []string{"sh", "-c", r.build.command}, Env: env, In: r.cmd.In, Out: out, Stdout: a.stderr, Stderr: a.stderr, Audit: r.cmd.Audit})
	if err != nil {
		return nil, remove, err
	}
	for _, text := range netClosing(res.Net) {
		fmt.Fprintln(a.stderr, "isolate: build: "+text)
	}
	if res.CommandExitCode() != 0 {
		res.Net = nil // told already
		return &res, remove, nil
	}
	if res.Identity == string(host.Dropped) {
		if err := shareTree(out); err != nil {
			return nil, remove, fmt.Errorf("cannot show what the build step left: %w", err)
		}
	}
	r.policy.ReadOnly = append(append([]policy.Bind{}, r.policy.ReadOnly...), policy.Bind{Source: out, Target: buildDir})
	found := map[string]string{
		"PYTHONPATH": buildDir + "/site-packages", "NODE_PATH": buildDir + "/node_modules",
		"PATH": buildDir + "/bin:" + buildDir + "/site-packages/bin:" + buildDir + "/node_modules/.bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	maps.Copy(found, r.policy.Env)
	r.policy.Env = found
	return nil, remove, nil
}

// shareTree lets everybody read and enter what the owner can. A program of root's
// is not the owner: it has an id that owns nothing. Nobody else gets as far: the
// directory above is closed.
func shareTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode, all := info.Mode().Perm(), info.Mode().Perm()>>6&0o5*0o11; all&^mode != 0 {
			return os.Chmod(path, mode|all)
		}
		return nil
	})
}

// buildFailed is the outcome of a build step that failed. One that has no
// network says only that it finds no host.
func buildFailed(res *isolate.Result, net egress.Mode) outcome {
	p := plan.Problem{
		What: fmt.Sprintf("cannot run the program: its build step failed with exit code %d", res.CommandExitCode()), Remedy: "what the step printed is above",
	}
	if net == egress.ModeNone {
		p.Remedy += "\nit had no network: --build-preset NAME gives it that of a package manager, --build-net allow:HOST another"
	}
	return outcome{result: res, code: res.CommandExitCode(), problems: []plan.Problem{p}}
}
