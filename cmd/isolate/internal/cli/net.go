package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// netFlags say what the program may reach.
func netFlags() []flagSpec {
	var out []flagSpec
	for _, f := range policyFlags() {
		if f.name == "policy" || strings.HasPrefix(f.name, "net") {
			out = append(out, f)
		}
	}
	return out
}

// readNet reads what the program may reach. A flag takes the place of what a
// policy file says; several add up.
func (r *reader) readNet() {
	n := &r.request.policy.Net
	if len(r.flags.many("net"))+len(r.flags.many("net-preset")) > 0 {
		*n = r.netOf("net", "net-preset")
		r.request.policy.Allow = consented(r.request.policy.Allow, *n)
	}
	read(r, "net-for", &struct{}{}, func(text string) (struct{}, error) {
		d, err := policy.ParseDuration(text)
		for i := range n.Rules {
			n.Rules[i].For = d
		}
		switch {
		case err == nil && len(n.HostPorts) > 0:
			r.add(plan.Problem{What: "cannot use --net-for with ports of this machine", Rule: "they are granted for as long as the sandbox lives", Remedy: "leave --net-for out, or bound the run with --time"})
		case err == nil && len(n.Rules) == 0:
			r.add(plan.Problem{What: "cannot use --net-for without rules", Rule: "it bounds how long the rules of --net hold", Remedy: "add --net allow:HOST"})
		}
		return struct{}{}, err
	})
	if r.flags.on("net-ipv6", &r.problems) {
		n.IPv6 = true
	}
	read(r, "net-dns", &n.DNS, func(text string) (d egress.DNS, err error) {
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return d, policy.Problem{What: err.Error(), Hint: "write " + strings.Join(egress.DNSModes(), " or ")}
		}
		return d, nil
	})
	if alone := r.flags.given("net-dns", "net-ipv6"); alone != "" && n.Mode == egress.ModeNone && len(r.problems) == 0 {
		r.add(plan.Problem{What: "cannot use " + alone + " without a network", Remedy: "add --net allow:HOST, --net restricted or --net full"})
		n.DNS, n.IPv6 = egress.DNSSynthetic, false // told
	}
}

// netOf reads a flag of modes and rules, and one of presets.
func (r *reader) netOf(flag, preset string) (n egress.Policy) {
	nets, presets := r.flags.many(flag), r.flags.many(preset)
	modes := 0 // and rules: what a mode alone contradicts
	for _, text := range nets {
		if !strings.HasPrefix(text, "host:") {
			modes++
		}
	}
	for _, text := range nets {
		p, err := egress.ParseShort(text)
		switch {
		case err != nil:
			bad := plan.Problem{What: "cannot use --" + flag + ": " + err.Error()}
			var p egress.Problem
			if errors.As(err, &p) {
				bad.Remedy = p.Hint
			}
			r.add(bad)
		case len(p.HostPorts) > 0:
			n.Mode = max(n.Mode, p.Mode)
			n.HostPorts = append(n.HostPorts, p.HostPorts...)
		case len(p.Rules) == 0 && (modes+len(presets) > 1 || p.Mode == egress.ModeNone && len(nets) > 1):
			r.add(plan.Problem{What: fmt.Sprintf("cannot use --%s %s with another --%s or --%s", flag, text, flag, preset), Rule: "they contradict each other", Remedy: "give the mode alone, or rules only"})
		default:
			n.Mode = p.Mode
			n.Rules = append(n.Rules, p.Rules...)
		}
	}
	for _, name := range presets {
		rules, err := egress.Preset(name)
		if err != nil {
			r.add(plan.Problem{What: err.Error(), Remedy: "see isolate exec --help"})
			continue
		}
		n.Mode = egress.ModeRestricted
		n.Rules = append(n.Rules, rules...)
	}
	return n
}

// consented adds the consent that a flag which grants ports of this machine is.
func consented(allow []policy.Weakening, n egress.Policy) []policy.Weakening {
	if len(n.HostPorts) == 0 || slices.Contains(allow, policy.HostPorts) {
		return allow
	}
	return append(slices.Clone(allow), policy.HostPorts)
}

// maxDenials bounds the denials that are told at the end; --meta has more.
const maxDenials = 5

// netClosing is what of the network is news at the end of a run.
func netClosing(n *isolate.NetSummary) []string {
	if n == nil {
		return nil
	}
	var lines []string
	for i, d := range n.Denials {
		if i == maxDenials {
			lines = append(lines, fmt.Sprintf("network: %d more kinds of denials; --meta lists them", len(n.Denials)-i))
			break
		}
		lines = append(lines, "network denied "+d.Text())
	}
	if n.Failed != "" {
		lines = append(lines, "network: "+n.Failed)
	}
	return lines
}

// netCommand explains network policies.
func (a *app) netCommand() *cobra.Command {
	net := &cobra.Command{Use: "net", Short: netShort, Long: netLong, Args: cobra.ArbitraryArgs}
	explain := &cobra.Command{DisableFlagsInUseLine: true, Use: "explain [flags] host[:port]|url ...", Short: netExplainShort, Long: netExplainLong, Args: cobra.ArbitraryArgs}
	f := addFlags(explain, netFlags())
	explain.RunE = func(_ *cobra.Command, args []string) error {
		a.netExplain(f, args)
		return nil
	}
	net.AddCommand(explain, a.netGrantCommand())
	net.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			a.code = a.refuse(plan.Problem{What: fmt.Sprintf("cannot run isolate net %q: there is no such command", args[0]), Remedy: "isolate net explain HOST:PORT, or isolate net grant SANDBOX HOST"})
			return nil
		}
		return cmd.Help()
	}
	return net
}

// netExplain runs the decision function dry. Its exit code is 0 if everything
// is allowed, 1 if something is denied.
func (a *app) netExplain(f flags, targets []string) {
	r := &reader{app: a, flags: f, problems: a.mistakes}
	r.readPolicyFile()
	r.readNet()
	if len(targets) == 0 {
		r.add(plan.Problem{What: "cannot explain: no host", Remedy: "isolate net explain --net allow:pypi.org pypi.org:443"})
	}
	var text strings.Builder
	denied := false
	for _, t := range targets {
		target, err := egress.ParseTarget(t)
		if err != nil {
			r.add(plan.Problem{What: err.Error(), Remedy: "give HOST:PORT, a URL, or a method and a URL in quotes"})
			continue
		}
		s, d, err := egress.Explain(r.request.policy.Net, target)
		if err != nil {
			r.add(plan.Problem{What: err.Error(), Remedy: "correct the policy"})
			continue
		}
		denied = denied || !d.Allowed()
		text.WriteString(s)
	}
	if len(r.problems) > 0 {
		a.code = a.refuse(r.problems...)
		return
	}
	a.say(text.String())
	if denied {
		a.code = 1
	}
}

// grantTime is how long a grant holds that does not say.
const grantTime = "10m"

// grantFlags say how long a grant holds, and why it is given.
func grantFlags() []flagSpec {
	return []flagSpec{{name: "for", kind: kindDuration}, {name: "reason", kind: "TEXT"}}
}

// netGrantCommand opens the network of a kept sandbox for a time.
func (a *app) netGrantCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "grant [flags] sandbox host[:port] ...", Short: netGrantShort, Long: netGrantLong, Annotations: map[string]string{flagsAnywhere: ""}}, remoteFlags(grantFlags()...), takesSome,
		func(ctx context.Context, c *client.Client, f asked, args []string) error {
			q := client.NetGrant{Allow: args[1:], For: cmp.Or(f.text["for"], grantTime), Reason: f.text["reason"]}
			if len(q.Allow) == 0 {
				return &plan.Refusal{Problems: []plan.Problem{{What: "cannot grant nothing: no host", Remedy: "isolate net grant " + args[0] + " pypi.org --for 10m --reason 'fetch packages'"}}}
			}
			g, err := c.GrantNet(ctx, args[0], q)
			if err != nil {
				return err
			}
			a.say(fmt.Sprintf("%s may reach %s until %s\n", args[0], strings.Join(g.Rules, ", "), g.Until.Local().Format(time.DateTime)))
			return nil
		})
}

// The words of isolate net.
const (
	netShort        = "Say what a network policy allows, and allow more"
	netLong         = "Programs have no network unless they are given one: --net allow:HOST[:PORT],… names what they may reach, --net full lets them reach everything public. docs/network.md says how."
	netExplainShort = "say what becomes of a connection, and why"
	netExplainLong  = "Runs the decision that is taken for every connection, without one. Names are not looked up. Of a URL the request is judged, too, where a rule judges requests: a GET, or what stands before the URL (\"POST https://api.example.org/v1/x\"). The exit code is 0 if all of it is allowed and 1 if something is denied."
	netGrantShort   = "let a kept sandbox of the server reach more, for a time"
	netGrantLong    = "The sandbox must have been made with a network: mode restricted without a rule reaches nothing until it is granted something. The grant is recorded with its reason before it holds; when its time is over, what is open through it is cut."
)
