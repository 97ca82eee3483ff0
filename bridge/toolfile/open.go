package toolfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/approve"
	"github.com/isolate-run/isolate/bridge/command"
	"github.com/isolate-run/isolate/bridge/mcp"
)

// Surroundings are what a file is read against.
type Surroundings struct {
	// Dir is where relative paths begin and commands run, absolute: the file's
	// directory, or the caller's. Required.
	Dir string
	// Environ is where ${NAME}, PATH, HOME and LANG are taken from, as
	// "NAME=VALUE".
	Environ []string
}

// Opened is what a file gave.
type Opened struct {
	// Tools are not checked against each other; bridge.NewSet does that.
	Tools []bridge.Tool
	// Options are the limits. The Approver is set unless the file says nobody,
	// or nothing.
	Options bridge.Options

	servers []*mcp.Server
}

// Close ends the servers. It is idempotent.
func (o *Opened) Close() error {
	var all sync.WaitGroup
	errs := make([]error, len(o.servers))
	for i, s := range o.servers {
		all.Go(func() { errs[i] = s.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Open makes the tools and starts and connects to the servers, all at once.
// The context bounds only that. The caller closes what it gets; on an error
// nothing is left open.
func (f File) Open(ctx context.Context, s Surroundings) (*Opened, error) {
	if !filepath.IsAbs(s.Dir) {
		return nil, fmt.Errorf("cannot open the tools: directory %q is not absolute", s.Dir)
	}
	o := &Opened{Options: f.Options()}
	var err error
	if o.Options.Approver, err = f.Approver(s); err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range f.Tools {
		tool, err := s.tool(t)
		errs = append(errs, err)
		o.Tools = append(o.Tools, tool)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := o.connect(ctx, f.Servers, s); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	for _, server := range o.servers {
		o.Tools = append(o.Tools, server.Tools()...)
	}
	return o, nil
}

// connect opens all servers side by side.
func (o *Opened) connect(ctx context.Context, servers []Server, s Surroundings) error {
	var all sync.WaitGroup
	opened, errs := make([]*mcp.Server, len(servers)), make([]error, len(servers))
	for i, server := range servers {
		c, err := s.server(server)
		if err != nil {
			errs[i] = err
			continue
		}
		all.Go(func() { opened[i], errs[i] = mcp.Open(ctx, c) })
	}
	all.Wait()
	for _, server := range opened {
		if server != nil {
			o.servers = append(o.servers, server)
		}
	}
	return errors.Join(errs...)
}

// Approver is who is to be asked; nil if the file says nobody, or nothing.
func (f File) Approver(s Surroundings) (bridge.Approver, error) {
	a := f.Approve
	switch a.Ask {
	case AskTerminal:
		return approve.NewControllingTerminal(), nil
	case AskCommand:
		env, err := s.env("approve", a.Env)
		if err != nil {
			return nil, err
		}
		return approve.NewCommand(approve.Command{Path: s.path(a.Command), Args: a.Args, Dir: s.dir(a.Dir), Env: env})
	case AskWebhook:
		secret, err := s.expand("secret of [approve]", a.Secret)
		if err != nil {
			return nil, err
		}
		url, err := s.expand("url of [approve]", a.URL)
		if err != nil {
			return nil, err
		}
		return approve.NewWebhook(approve.Webhook{URL: url, Secret: []byte(secret)})
	}
	return nil, nil
}

func (s Surroundings) tool(t Tool) (bridge.Tool, error) {
	tool := bridge.Tool{
		Name: t.Name, Description: t.Description, Approve: t.Approve, Timeout: t.Timeout, MaxCalls: t.MaxCalls,
		Source: "command " + t.Command,
	}
	env, err := s.env("tool."+t.Name, t.Env)
	if err != nil {
		return tool, err
	}
	var schemaErr error
	if t.Schema != "" {
		tool, schemaErr = s.described(tool, t.Schema)
	}
	if t.Effect != nil {
		tool.Effect = *t.Effect
	}
	tool, err = command.New(tool, command.Program{Path: s.path(t.Command), Args: t.Args, Dir: s.dir(t.Dir), Env: env})
	return tool, errors.Join(schemaErr, err)
}

// described is a tool with what its schema file says. The error names the file
// as tools.toml does.
func (s Surroundings) described(tool bridge.Tool, schema string) (bridge.Tool, error) {
	data, err := command.ReadSchema(s.dir(schema))
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return tool, fmt.Errorf("cannot read schema %q of [tool.%s]: %w", schema, tool.Name, err)
	}
	return command.WithSchema(tool, schema, data)
}

func (s Surroundings) server(v Server) (mcp.Config, error) {
	c := mcp.Config{
		Name: v.Name, Allow: v.Allow, Deny: v.Deny, Approve: v.Approve, Effects: v.Effects, Timeout: v.Timeout, MaxCalls: v.MaxCalls,
	}
	var err error
	switch {
	case v.Socket != "":
		c.Socket = s.dir(v.Socket)
	case v.URL != "":
		if c.URL, err = s.expand("url of [mcp."+v.Name+"]", v.URL); err != nil {
			return c, err
		}
		c.Header = http.Header{}
		for name, text := range v.Headers {
			value, err := s.expand(fmt.Sprintf("header %q of [mcp.%s]", name, v.Name), text)
			if err != nil {
				return c, err
			}
			if isControlled(value) {
				return c, fmt.Errorf("cannot use header %q of [mcp.%s]: its value has a control character", name, v.Name)
			}
			c.Header.Set(name, value)
		}
	default:
		env, err := s.env("mcp."+v.Name, v.Env)
		if err != nil {
			return c, err
		}
		c.Command = &mcp.Command{Path: s.path(v.Command), Args: v.Args, Dir: s.dir(v.Dir), Env: env}
	}
	return c, nil
}

// env is the environment of a command: the three that all get, and its own.
func (s Surroundings) env(table string, own map[string]string) ([]string, error) {
	var env []string
	for _, v := range command.BaseEnv(s.Environ) {
		name, _, _ := strings.Cut(v, "=")
		if _, over := own[name]; !over {
			env = append(env, v)
		}
	}
	names := make([]string, 0, len(own))
	for name := range own {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		value, err := s.expand(fmt.Sprintf("variable %q of [%s]", name, table), own[name])
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// expand puts variables of the environment into a text. The error names the
// text's place, never its value.
func (s Surroundings) expand(what, text string) (string, error) {
	out, err := expand(text, func(name string) (string, bool) {
		for i := len(s.Environ) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(s.Environ[i], name+"="); ok {
				return v, true
			}
		}
		return "", false
	})
	if err != nil {
		return "", fmt.Errorf("cannot set %s: %w", what, err)
	}
	return out, nil
}

// dir is a directory, or any other path, from the file.
func (s Surroundings) dir(dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(s.Dir, dir)
}

// path is a command from the file: one without a slash is looked for in PATH,
// others begin at the file's directory, whatever the working directory.
func (s Surroundings) path(file string) string {
	if !strings.Contains(file, "/") {
		return file
	}
	return s.dir(file)
}
