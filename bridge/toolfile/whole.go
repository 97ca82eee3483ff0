package toolfile

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/isolate-run/isolate/policy"
)

// checkWhole says what is wrong with settings taken together.
func (d *decoder) checkWhole() {
	for _, name := range slices.Sorted(maps.Keys(d.tools)) {
		if d.tools[name].Command == "" {
			d.wrong("tool."+name, "it has no command", `write command = "./`+name+`"`, "tool", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.servers)) {
		d.checkServer("mcp."+name, name, d.servers[name])
	}
	d.checkApprove()
	d.checkNames()
}

// wrong reports a problem of a table at the place of the names, unless
// something in it could not be read: then that is told alone.
func (d *decoder) wrong(field, cause, hint string, names ...string) {
	for _, p := range d.problems {
		if p.Field == field || len(p.Field) > len(field) && p.Field[:len(field)+1] == field+"." {
			return
		}
	}
	d.report(d.at(names...), policy.Problem{Field: field, What: fmt.Sprintf("cannot use [%s]: %s", field, cause), Hint: hint})
}

func (d *decoder) checkServer(field, name string, s *Server) {
	ways := 0
	for _, way := range []string{s.Command, s.Socket, s.URL} {
		if way != "" {
			ways++
		}
	}
	if ways != 1 {
		d.wrong(field, fmt.Sprintf("it has %d of command, socket and url", ways), "give it one of them", "mcp", name)
	}
	for _, k := range ofCommand(s.Args, s.Dir, s.Env) {
		if s.Command == "" && ways == 1 {
			d.wrong(field, k+" is for a command", "remove it", "mcp", name, k)
		}
	}
	if s.Headers != nil && s.URL == "" && ways == 1 {
		d.wrong(field, "headers are for a url", "remove them", "mcp", name, "headers")
	}
	d.checkPatterns(field, name, "allow", s.Allow)
	d.checkPatterns(field, name, "deny", s.Deny)
}

func (d *decoder) checkPatterns(field, name, key string, patterns []string) {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			d.wrong(field, fmt.Sprintf("%s has the pattern %s, which is none", key, quote(p)), `write one such as "read_*"`, "mcp", name, key)
		}
	}
}

// ofCommand are those of the settings of a command that are set.
func ofCommand(args []string, dir string, env map[string]string) []string {
	var keys []string
	if args != nil {
		keys = append(keys, "args")
	}
	if dir != "" {
		keys = append(keys, "dir")
	}
	if env != nil {
		keys = append(keys, "env")
	}
	return keys
}

func (d *decoder) checkApprove() {
	a := d.approve
	needs := map[string]bool{"command": a.Ask == AskCommand, "url": a.Ask == AskWebhook, "secret": a.Ask == AskWebhook}
	has := map[string]bool{"command": a.Command != "", "url": a.URL != "", "secret": a.Secret != ""}
	examples := map[string]string{}
	for _, k := range approveKeys(&a) {
		examples[k.name] = k.example
	}
	for _, key := range []string{"command", "url", "secret"} {
		switch {
		case needs[key] && !has[key]:
			d.wrong("approve", fmt.Sprintf("ask = %q needs %s", a.Ask, key), "write "+examples[key], "approve", "ask")
		case has[key] && !needs[key]:
			d.wrong("approve", fmt.Sprintf("%s is set, and ask is %q", key, a.Ask), "remove one of them", "approve", key)
		}
	}
	for _, k := range ofCommand(a.Args, a.Dir, a.Env) {
		if a.Ask != AskCommand {
			d.wrong("approve", fmt.Sprintf("%s is set, and ask is %q", k, a.Ask), "remove one of them", "approve", k)
		}
	}
	if err := checkReferences("secret", a.Secret); a.Secret != "" && err != nil {
		d.problem(d.at("approve", "secret"), "approve.secret", err)
	}
}

// checkNames refuses a tool with the name that a server's tools begin with:
// "files.read" may be one of the server files.
func (d *decoder) checkNames() {
	for _, name := range slices.Sorted(maps.Keys(d.tools)) {
		for _, server := range slices.Sorted(maps.Keys(d.servers)) {
			if len(name) > len(server) && name[:len(server)+1] == server+"." {
				d.wrong("tool."+name, fmt.Sprintf("names that begin with %q are those of [mcp.%s]", server+".", server), "rename one of them", "tool", name)
			}
		}
	}
}
