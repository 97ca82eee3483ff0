package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/server"
)

// What the commands share that ask a running server.

// remoteFlags are the flags of a command that asks the server.
func remoteFlags(more ...flagSpec) []flagSpec {
	return append(more, flagSpec{name: "socket", kind: kindFile})
}

// askedServer is the server of the flags, or of this user.
func (a *app) askedServer(f flags) (*client.Client, []plan.Problem) {
	socket := a.serverSocket()
	r := &reader{app: a, flags: f}
	read(r, "socket", &socket, r.dirOf)
	return client.New(socket), r.problems
}

// serverSocket is where the server of this user listens, if there is one.
func (a *app) serverSocket() string {
	if socket, _ := a.getenv(socketVariable); socket != "" {
		return socket
	}
	return server.DefaultSocket(isolate.DefaultDir())
}

// remote makes a command that asks the server. args says how many arguments it
// takes, and do gets them.
func (a *app) remote(c *cobra.Command, specs []flagSpec, args arity, do func(context.Context, *client.Client, asked, []string) error) *cobra.Command {
	return a.asking(c, specs, question{args: args, do: do})
}

// question is what a command asks the server.
type question struct {
	args arity
	// read reads flags of the command that are not among its specs, and says
	// what is wrong with them; nil means that there are none.
	read func() []plan.Problem
	do   func(context.Context, *client.Client, asked, []string) error
	// conclude is told what went wrong when all is over, or nil, and the exit
	// code is there; nil prints.
	conclude func([]plan.Problem)
}

// asking makes the command of a question.
func (a *app) asking(c *cobra.Command, specs []flagSpec, q question) *cobra.Command {
	f := addFlags(c, specs)
	if q.conclude == nil {
		q.conclude = func(problems []plan.Problem) { a.print(problems...) }
	}
	c.DisableFlagsInUseLine = true
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, given []string) error {
		server, problems := a.askedServer(f)
		problems = append(a.mistakes, problems...)
		values := asked{on: map[string]bool{}, text: map[string]string{}}
		for _, s := range specs {
			if s.kind == kindSwitch {
				values.on[s.name] = f.on(s.name, &problems)
			} else if s.name != "socket" { // askedServer has read it
				values.text[s.name], _ = f.one(s.name, &problems)
			}
		}
		if q.read != nil {
			problems = append(problems, q.read()...)
		}
		switch {
		case q.args == takesNone && len(given) > 0:
			problems = append(problems, extraArgument(cmd.CommandPath(), given[0]))
		case q.args != takesNone && len(given) == 0:
			problems = append(problems, noName(cmd.CommandPath()))
		case q.args == takesOne && len(given) > 1:
			problems = append(problems, extraArgument(cmd.CommandPath()+" "+given[0], given[1]))
		}
		if len(problems) > 0 {
			a.code = exitRefused
			q.conclude(problems)
			return nil
		}
		defer server.Close()
		i := a.watchSignals(cmd.Context())
		defer i.stop()
		switch err := q.do(i.ctx, server, values, given); {
		case i.signal() != 0:
			a.code = exitSignal + int(i.signal())
		case unread(err):
			a.code = exitSignal + int(syscall.SIGPIPE)
		case err != nil:
			a.code = exitRefused
			problems = remoteProblems(err)
		}
		q.conclude(problems)
		return nil
	}
	return c
}

// asked are the values of a command's flags, by name: the switches that are on,
// and the texts of the others.
type asked struct {
	on   map[string]bool
	text map[string]string
}

// arity is how many arguments a command takes.
type arity int

const (
	takesNone arity = iota
	takesOne
	takesSome
)

// remoteProblems takes an error of the client apart.
func remoteProblems(err error) []plan.Problem {
	var refused *client.Error
	var none *client.UnreachableError
	var joined interface{ Unwrap() []error }
	var list []plan.Problem
	switch {
	case errors.As(err, &joined):
		for _, e := range joined.Unwrap() {
			list = append(list, remoteProblems(e)...)
		}
		return list
	case errors.As(err, &refused) && len(refused.Problems) > 0:
		for _, p := range refused.Problems {
			list = append(list, plan.Problem(p))
		}
		return list
	case errors.As(err, &none):
		return []plan.Problem{noServer(none)}
	}
	return problemsOf(err)
}

// asJSON prints v as it came.
func (a *app) asJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table prints rows in columns. The first row is the head.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// commandWidth is how much of a command line is shown, in bytes.
const commandWidth = 60

// commandText is a command line fit to be shown in one line.
func commandText(args []string) string {
	text := strings.ReplaceAll(plaintext.Visible(strings.Join(args, " ")), "\n", `\n`)
	return plaintext.Clean(text, commandWidth)
}

// age is how long ago something was, or how long it took, roughly.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	}
	return d.Round(time.Second).String()
}

// runRows are runs as rows of a table.
func runRows(list []client.Run, now time.Time) [][]string {
	rows := [][]string{{"ID", "WAY", "STATE", "TIME", "CPU", "MEMORY", "COMMAND"}}
	for _, r := range list {
		state, took := r.State, now.Sub(r.Began)
		if r.Ended != nil {
			took = r.Ended.Sub(r.Began)
		}
		if r.ExitCode != nil && r.Ended != nil {
			state = fmt.Sprintf("exit %d", *r.ExitCode)
		}
		where := r.Way
		if r.Sandbox != "" {
			where += " in " + r.Sandbox
		}
		rows = append(rows, []string{r.ID, where, state, age(took), measured(r.CPU > 0, age(r.CPU)), measured(r.Memory > 0, megabytes(r.Memory)), commandText(r.Args)})
	}
	return rows
}

func measured(known bool, text string) string {
	if known {
		return text
	}
	return "-"
}

func megabytes(n int64) string { return fmt.Sprintf("%.1fM", float64(n)/float64(policy.MiB)) }
