package toolfile

import (
	"fmt"
	"path"

	"github.com/isolate-run/isolate/policy"
)

// checkWhole says what is wrong with settings taken together.
func (d *decoder) checkWhole() {
	for name, t := range d.tools {
		if t.Command == "" {
			d.wrong("tool."+name, "it has no command", `write command = "./`+name+`"`, "tool", name)
		}
	}
	for name, s := range d.servers {
		d.checkServer("mcp."+name, name, s)
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
	for key, set := range map[string]bool{"args": s.Args != nil, "dir": s.Dir != "", "env": s.Env != nil} {
		if set && s.Command == "" && ways == 1 {
			d.wrong(field, key+" is for a command", "remove it", "mcp", name, key)
		}
	}
	if s.Headers != nil && s.URL == "" && ways == 1 {
		d.wrong(field, "headers are for a url", "remove them", "mcp", name, "headers")
	}
	for key, list := range map[string][]string{"allow": s.Allow, "deny": s.Deny} {
		for _, pattern := range list {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				d.wrong(field, fmt.Sprintf("%s has the pattern %s, which is none", key, quote(pattern)), `write one such as "read_*"`, "mcp", name, key)
			}
		}
	}
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
	for key, set := range map[string]bool{"args": a.Args != nil, "dir": a.Dir != "", "env": a.Env != nil} {
		if set && a.Ask != AskCommand {
			d.wrong("approve", fmt.Sprintf("%s is set, and ask is %q", key, a.Ask), "remove one of them", "approve", key)
		}
	}
	if err := checkReferences("secret", a.Secret); a.Secret != "" && err != nil {
		d.problem(d.at("approve", "secret"), "approve.secret", err)
	}
}

// checkNames refuses a tool with the name that a server's tools begin with:
// "files.read" may be one of the server files.
func (d *decoder) checkNames() {
	for name := range d.tools {
		for server := range d.servers {
			if len(name) > len(server) && name[:len(server)+1] == server+"." {
				d.wrong("tool."+name, fmt.Sprintf("names that begin with %q are those of [mcp.%s]", server+".", server), "rename one of them", "tool", name)
			}
		}
	}
}
