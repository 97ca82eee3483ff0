package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/approve"
	"github.com/isolate-run/isolate/bridge/command"
	"github.com/isolate-run/isolate/bridge/mcp"
	"github.com/isolate-run/isolate/bridge/toolfile"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// toolset is what flags and files say about tools. It opens nothing until open.
type toolset struct {
	given    bool           // there is any
	file     *toolfile.File // nil without --tools
	where    string         // its directory
	commands []command.Flag
	servers  []mcp.Config
	rules    []approvalRule
	// ask is who is asked: empty is who the file says, or the terminal.
	ask string
	// maxCalls and parallel are 0 if they were not given.
	maxCalls, parallel int
	socket             bool
	// opened is what came of opening them already; nil if that was not tried.
	opened *attempt
}

// approvalRule says when a person is asked before tools of which the name fits.
type approvalRule struct {
	typed   string
	pattern string
	when    bridge.Approval
}

// approvals are the values of --approve.
var approvals = map[string]bridge.Approval{
	"never": bridge.ApproveNever, "ask": bridge.ApproveAsk, "writes": bridge.ApproveWrites,
}

// webhookSecret is the variable with the secret that signs questions to a web
// service. A flag would show it to every user of this machine.
const webhookSecret = "ISOLATE_APPROVE_SECRET"

// readTools reads the flags about tools.
func (r *reader) readTools() toolset {
	s := toolset{given: r.flags.given("tools", "tool", "mcp") != ""}
	switch {
	case s.given && r.lending != nil:
		return s // who asked for the run has read the flags, and has the tools
	case s.given && r.environ == nil:
		r.add(toolsOfServer())
		return toolset{}
	}
	if name, given := r.flags.one("tools", &r.problems); given {
		r.readToolFile(&s, name)
	}
	for _, text := range r.flags.many("tool") {
		f, err := command.ParseFlag(text)
		if err != nil {
			r.add(plan.Problem{What: err.Error(), Remedy: "write --tool NAME=./program, or --tool NAME=./program,schema=FILE"})
			continue
		}
		s.commands = append(s.commands, f)
	}
	for _, text := range r.flags.many("mcp") {
		c, err := mcp.ParseFlag(text)
		if err != nil {
			r.add(plan.Problem{What: err.Error(), Remedy: "write --mcp files='npx @modelcontextprotocol/server-filesystem DIR', --mcp files=unix:PATH or --mcp files=http://HOST/mcp"})
			continue
		}
		if c.Command != nil {
			c.Command.Dir, c.Command.Env = r.dir, command.BaseEnv(r.environ())
		}
		if c.Socket != "" {
			if c.Socket, err = r.abs(c.Socket); err != nil {
				r.wrong("mcp", err)
			}
		}
		s.servers = append(s.servers, c)
	}
	for _, text := range r.flags.many("approve") {
		rule, err := readApproval(text)
		if err != nil {
			r.add(wrongApproval(text))
			continue
		}
		s.rules = append(s.rules, rule)
	}
	read(r, "ask", &s.ask, notEmpty)
	read(r, "max-calls", &s.maxCalls, func(text string) (int, error) {
		if text == "none" {
			return bridge.NoLimit, nil
		}
		return policy.ParseCount(text)
	})
	read(r, "parallel", &s.parallel, policy.ParseCount)
	s.socket = r.flags.on("mcp-socket", &r.problems)
	if list := r.flags.given("approve", "ask", "max-calls", "parallel", "mcp-socket"); list != "" && !s.given {
		r.add(flagsWithoutTools(list))
	}
	return s
}

// readToolFile reads a tools.toml. Its relative paths begin where it is.
func (r *reader) readToolFile(s *toolset, name string) {
	full, err := r.abs(name)
	if err != nil {
		r.wrong("tools", err)
		return
	}
	f, err := os.Open(full)
	if err != nil {
		r.add(unreadable("tools", name, err))
		return
	}
	defer f.Close()
	file, err := toolfile.Read(name, f)
	var bad *toolfile.DecodeError
	switch {
	case errors.As(err, &bad):
		for _, p := range bad.Problems {
			r.add(wrongFile("tools", bad.Name, p))
		}
	case err != nil:
		r.add(unreadable("tools", name, err))
	default:
		s.file, s.where = &file, filepath.Dir(full)
	}
}

// readApproval reads WHEN or PATTERN=WHEN.
func readApproval(text string) (approvalRule, error) {
	pattern, when, found := strings.Cut(text, "=")
	if !found {
		pattern, when = "*", text
	}
	mode, known := approvals[when]
	if _, err := path.Match(pattern, ""); err != nil || !known || pattern == "" {
		return approvalRule{}, errEmpty
	}
	return approvalRule{typed: text, pattern: pattern, when: mode}, nil
}

// fits says whether a rule is for a tool. "*" alone is for all.
func (r approvalRule) fits(name string) bool {
	ok, _ := path.Match(r.pattern, name)
	return ok || r.pattern == "*"
}

// opened is a toolset in use.
type opened struct {
	tools   *isolate.Tools
	list    []isolate.Tool
	servers []io.Closer
}

// close ends the servers that were started for the tools.
func (o opened) close() error {
	var errs []error
	for _, s := range o.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// openTools makes the tools and starts or reaches the servers. The caller
// closes what it gets, whether there are problems or not.
func (a *app) openTools(ctx context.Context, s toolset) (opened, []plan.Problem) {
	if s.opened != nil {
		return s.opened.opened, s.opened.problems
	}
	o := opened{tools: &isolate.Tools{}}
	var problems []plan.Problem
	if s.file != nil {
		f, err := s.file.Open(ctx, toolfile.Surroundings{Dir: s.where, Environ: a.environ()})
		if err != nil {
			return o, wrongTool(err)
		}
		o.servers, o.list, o.tools.Options = append(o.servers, f), f.Tools, f.Options
	}
	options := &o.tools.Options
	if s.maxCalls != 0 {
		options.MaxCalls = s.maxCalls
	}
	if s.parallel > 0 {
		options.Parallel = s.parallel
	}
	if s.socket {
		o.tools.Socket = mcp.Serve
	}
	for _, f := range s.commands {
		t, err := a.commandTool(f)
		if err != nil {
			problems = append(problems, wrongTool(err)...)
			continue
		}
		o.list = append(o.list, t)
	}
	problems = append(problems, o.connect(ctx, s.servers)...)
	if s.ask != "" || s.file == nil || s.file.Approve.Ask == toolfile.AskUnset {
		var err error
		if options.Approver, err = a.approver(s.ask); err != nil {
			problems = append(problems, wrongAsker(s.ask, err))
		}
	}
	if len(problems) > 0 {
		return o, problems
	}
	problems = o.approve(s.rules)
	o.tools.Add(o.list...)
	if err := o.tools.Check(); err != nil {
		problems = append(problems, wrongTool(err)...)
	}
	return o, problems
}

// unasked says that calls will be denied because there is no terminal to ask at,
// and sees to it; empty if there is one, or nothing to ask.
func (o *opened) unasked() string {
	t, is := o.tools.Options.Approver.(*approve.Terminal)
	if !is {
		return ""
	}
	var names []string
	for _, tool := range o.list {
		if tool.Approve == bridge.ApproveAsk || tool.Approve == bridge.ApproveWrites && tool.Effect != bridge.ReadOnly {
			names = append(names, tool.Name)
		}
	}
	if len(names) == 0 || t.Reachable() == nil {
		return ""
	}
	o.tools.Options.Approver = nil // nobody
	return nobodyToAsk(names)
}

// connect opens servers, all at the same time: each may take seconds to start.
func (o *opened) connect(ctx context.Context, list []mcp.Config) (problems []plan.Problem) {
	servers, errs := make([]*mcp.Server, len(list)), make([]error, len(list))
	var wait sync.WaitGroup
	for i, c := range list {
		wait.Go(func() { servers[i], errs[i] = mcp.Open(ctx, c) })
	}
	wait.Wait()
	for i, s := range servers {
		if errs[i] != nil {
			problems = append(problems, wrongServer(errs[i]))
			continue
		}
		o.servers = append(o.servers, s)
		o.list = append(o.list, s.Tools()...)
	}
	return problems
}

// approve applies the rules, of which the last that fits a tool counts.
func (o *opened) approve(rules []approvalRule) (problems []plan.Problem) {
	for _, rule := range rules {
		hit := false
		for i := range o.list {
			if rule.fits(o.list[i].Name) {
				o.list[i].Approve, hit = rule.when, true
			}
		}
		if !hit {
			problems = append(problems, approvalOfNothing(rule.typed, rule.pattern))
		}
	}
	return problems
}

// commandTool makes the tool of a --tool flag.
func (a *app) commandTool(f command.Flag) (isolate.Tool, error) {
	t := isolate.Tool{Name: f.Name}
	if a.dirErr != nil {
		return t, a.dirErr
	}
	var schemaErr error
	if f.Schema != "" {
		t, schemaErr = a.described(t, f.Schema)
	}
	t, err := command.New(t, command.Program{Path: f.Path, Dir: a.dir, Env: command.BaseEnv(a.environ())})
	return t, errors.Join(schemaErr, err)
}

// described is a tool with what its schema file says.
func (a *app) described(t isolate.Tool, schema string) (isolate.Tool, error) {
	file, err := a.abs(schema)
	if err != nil {
		return t, err
	}
	text, err := command.ReadSchema(file)
	if err != nil {
		return t, fmt.Errorf("cannot read schema %q of tool %q: %w", schema, t.Name, cause(err))
	}
	return command.WithSchema(t, schema, text)
}

// approver makes who is asked: the person at the terminal, a web service, or a
// command, which is split at spaces.
func (a *app) approver(ask string) (bridge.Approver, error) {
	words := strings.Fields(ask)
	switch {
	case ask == "nobody": // as in a file of tools
		return nil, nil
	case ask == "" || ask == "terminal":
		return approve.NewControllingTerminal(), nil
	case strings.HasPrefix(ask, "http://"), strings.HasPrefix(ask, "https://"):
		secret, _ := a.getenv(webhookSecret)
		return approve.NewWebhook(approve.Webhook{URL: ask, Secret: []byte(secret)})
	case len(words) == 0:
		return nil, errEmpty
	}
	return approve.NewCommand(approve.Command{Path: words[0], Args: words[1:], Dir: a.dir, Env: command.BaseEnv(a.environ())})
}
