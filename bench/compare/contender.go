package compare

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/bench/peers"
	"github.com/isolate-run/isolate/bench/result"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// start starts a program once and waits for its end. out gets its standard
// output if it prints any.
type start func(ctx context.Context, out io.Writer) error

// contender is one way to start a program.
type contender struct {
	name, is string
	version  string
	also     []string
	// missing says why it takes no part; empty if it does.
	missing string
	// kind says which workloads it takes.
	kind    kind
	prepare func(p program) (start, error)
	// settle waits until what goes on behind the answers is done; nil means
	// that nothing does.
	settle func(ctx context.Context)
}

// kind sorts contenders by what is to be learned from them.
type kind int

const (
	everywhere kind = iota
	starting        // differs from another in how programs are started only
	preloaded       // runs Python programs only
)

func (c *contender) takes(w workload) bool {
	switch c.kind {
	case starting:
		return !w.long
	case preloaded:
		return w.preload != ""
	}
	return true
}

// namespacesName is the floor: what any sandbox pays.
const namespacesName = "namespaces"

// Contenders are the names for Options.Contenders, in the order of the report.
func Contenders() []string {
	names := []string{result.Bare, namespacesName, isolateName, unpreparedName, preloadedName, servedName, coldName}
	for _, p := range peers.All() {
		names = append(names, p.Name)
	}
	return names
}

// contenders are all of them; fork+exec is the first.
func (c *comparison) contenders() []*contender {
	all := []*contender{
		{name: result.Bare, is: "the program alone", prepare: c.bare(nil)},
		{name: namespacesName, kind: starting, is: "a bare clone into the same namespaces, nothing set up in them", prepare: c.bare(cloneFlags())},
	}
	all = append(all, c.isolate.contenders(c)...)
	for _, p := range peers.All() {
		all = append(all, c.peer(p))
	}
	for _, who := range all {
		if wanted := c.options.Contenders; wanted != nil && who.name != result.Bare && !slices.Contains(wanted, who.name) {
			who.missing = result.NotChosen
		}
	}
	return all
}

// bare starts programs on the host, with attributes of their process.
func (c *comparison) bare(attr *syscall.SysProcAttr) func(program) (start, error) {
	return func(p program) (start, error) {
		return c.command(p, spawn{env: c.environ(), attr: attr}, func(int64) []string { return p.args }), nil
	}
}

// cloneFlags are those of the namespaces floor.
func cloneFlags() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
}

// peer is another program, if it is installed.
func (c *comparison) peer(p peers.Peer) *contender {
	who := &contender{name: p.Name, is: p.Is, also: p.Also}
	file := p.Find()
	switch {
	case file == "":
		who.missing = "not installed"
		return who
	case p.User == peers.RootOnly && c.ground.UID != 0:
		who.missing = "needs root"
		return who
	}
	who.version = versionOf(file)
	who.prepare = func(prog program) (start, error) {
		launch, err := p.Prepare(c.ground, file, prog.key, prog.args)
		if err != nil {
			return nil, err
		}
		return c.command(prog, spawn{env: c.environ()}, launch), nil
	}
	return who
}

// environ is the environment of everything but isolate's own commands.
func (c *comparison) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.ground.Dir, "LANG=C.UTF-8", peers.Marker + "=1"}
}

// maxSaid bounds what is kept of standard error, in bytes.
const maxSaid = 4 << 10

// spawn is how a command line is started.
type spawn struct {
	env []string
	// attr are attributes of the process; nil is none.
	attr *syscall.SysProcAttr
	// name is what the program is called; empty is its path.
	name string
}

// command starts a command line, in a process group of its own, which is killed
// with ctx. Its standard error is read until it has succeeded once: reading
// costs time.
func (c *comparison) command(p program, s spawn, line peers.Launch) start {
	var proven atomic.Bool
	return func(ctx context.Context, out io.Writer) error {
		args := line(c.runs.Add(1))
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env, cmd.Dir = s.env, "/"
		if s.name != "" {
			cmd.Args[0] = s.name
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		if s.attr != nil {
			*cmd.SysProcAttr = *s.attr
		}
		cmd.SysProcAttr.Setpgid = true
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 5 * time.Second
		if p.output != 0 {
			cmd.Stdout = out
		}
		said := &head{limit: maxSaid}
		if !proven.Load() {
			cmd.Stderr = said
		}
		if err := cmd.Run(); err != nil {
			return explain(ctx, err, said.b)
		}
		proven.Store(true)
		return nil
	}
}

// explain adds to the error of a command what it said.
func explain(ctx context.Context, err error, said []byte) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if text := strings.Join(strings.Fields(string(said)), " "); text != "" {
		return fmt.Errorf("%w: %s", err, plaintext.Visible(plaintext.Clean(text, 200)))
	}
	return err
}

// head keeps the first bytes that are written to it, and takes all.
type head struct {
	b     []byte
	limit int
}

func (h *head) Write(b []byte) (int, error) {
	h.b = append(h.b, b[:min(len(b), h.limit-len(h.b))]...)
	return len(b), nil
}

// versionOf is the first line that a program says about its version; empty if
// it says nothing.
func versionOf(file string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	said := &head{limit: 200}
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.Stdout, cmd.WaitDelay = said, time.Second
	if cmd.Run() != nil {
		return ""
	}
	line, _, _ := bytes.Cut(said.b, []byte("\n"))
	return plaintext.Visible(plaintext.Clean(string(line), 80))
}

// broken is what is said of a contender that does not get as far as a probe.
const broken = "does not work here"

// look has every contender run the probe. One that cannot takes no part.
func (c *comparison) look(ctx context.Context) ([]result.Contender, error) {
	own, err := peers.Namespaces()
	if err != nil {
		return nil, err
	}
	var list []result.Contender
	for _, who := range c.all {
		r := result.Contender{Name: who.name, Is: who.is, Version: who.version, Also: who.also}
		if who.missing == "" {
			said, err := c.probe(ctx, who)
			if err != nil {
				who.missing, r.Why = broken, err.Error()
			} else if r.Seen, err = peers.Seen(said, own); err != nil {
				r.Unseen = err.Error()
			}
		}
		r.Missing = who.missing
		list = append(list, r)
	}
	return list, nil
}

// probe runs the probe once and gives what it said, which is not trusted.
func (c *comparison) probe(ctx context.Context, who *contender) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	p := program{key: "probe", args: peers.Probe(c.marker()), output: peers.MaxSaid}
	if who.kind == preloaded { // it runs Python programs only: this one becomes the probe
		p.preload = "python"
		p.args = append([]string{python, "-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"}, p.args...)
	}
	start, err := who.prepare(p)
	if err != nil {
		return nil, err
	}
	said := &head{limit: peers.MaxSaid + 1}
	err = start(ctx, said)
	if who.settle != nil {
		who.settle(ctx)
	}
	return said.b, err
}
