package policy

import (
	"encoding"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/internal/tomltext"
)

// The settings of the table net, and of the tables in its lists.
const (
	netAllow = "allow"
	netDeny  = "deny"
)

const netExample = "[net] and below it mode = \"restricted\""

// netLists are the lists of tables in net.
var netLists = []string{netAllow, netDeny}

// net reads a setting of the table net, or all of them written inline.
func (d *decoder) net(k key, at part, rest []part, v *unstable.Node) {
	if len(rest) == 0 {
		if v.Kind != unstable.InlineTable {
			d.report(tomltext.ValueOffset(v, at.offset), wrongKind(k.name, v.Kind, k.takes, k.example))
			return
		}
		for it := v.Children(); it.Next(); {
			d.net(k, at, keyOf(it.Node()), it.Node().Value())
		}
		return
	}
	if _, ok := d.places[k.name]; !ok {
		d.places[k.name] = at.offset
	}
	name, offset := rest[0].name, rest[0].offset
	switch {
	case slices.Contains(netLists, name) && len(rest) == 2 && len(d.table) == 2:
		d.netItem(name, rest[1], v)
	case slices.Contains(netLists, name) && len(rest) == 1 && d.once("net."+name, offset):
		d.netTables(name, offset, v)
	case len(rest) > 1:
		d.report(offset, Problem{Field: "net", What: fmt.Sprintf("cannot read net.%s: it is no table", joined(rest)), Hint: "write " + netExample})
	case slices.Contains(netLists, name): // a second time, which is told
	default:
		own := d.netOwn()
		if read, known := own[name]; !known {
			d.unknown(rest[0], slices.Concat(slices.Sorted(maps.Keys(own)), netLists))
		} else if d.once("net."+name, offset) {
			read("net."+name, offset, v)
		}
	}
}

// netReader reads the value of a setting.
type netReader func(field string, offset int, v *unstable.Node)

// netOwn are the settings of the table itself.
func (d *decoder) netOwn() map[string]netReader {
	n := &d.policy.Net
	return map[string]netReader{
		"mode":   d.netEnum(&n.Mode, `mode = "restricted"`),
		"dns":    d.netEnum(&n.DNS, `dns = "real"`),
		"exempt": d.netList(&n.Exempt, `exempt = ["198.18.0.0/15"]`),
		"ipv6":   d.netFlag(&n.IPv6, "ipv6 = true"),
		"host-ports": func(field string, offset int, v *unstable.Node) {
			n.HostPorts = d.netPorts(field, offset, v, "host-ports = [8000]")
		},
	}
}

func (d *decoder) netEnum(to encoding.TextUnmarshaler, example string) netReader {
	return func(field string, offset int, v *unstable.Node) {
		d.netText(field, offset, v, example, to.UnmarshalText)
	}
}

func (d *decoder) netList(to *[]string, example string) netReader {
	return func(field string, offset int, v *unstable.Node) {
		d.netArray(field, offset, v, example, unstable.String, func(item *unstable.Node) { *to = append(*to, string(item.Data)) })
	}
}

func (d *decoder) netFlag(to *bool, example string) netReader {
	return func(field string, offset int, v *unstable.Node) {
		if v.Kind != unstable.Bool {
			d.report(offset, wrongKind(field, v.Kind, "true or false", example))
			return
		}
		*to = string(v.Data) == "true"
	}
}

// netTables reads a list of tables written inline.
func (d *decoder) netTables(name string, offset int, v *unstable.Node) {
	if v.Kind != unstable.Array {
		d.report(tomltext.ValueOffset(v, offset), wrongKind("net."+name, v.Kind, "a list of tables", netExample))
		return
	}
	for it := v.Children(); it.Next(); {
		item := it.Node()
		if item.Kind != unstable.InlineTable {
			d.report(tomltext.ValueOffset(item, offset), wrongKind("net."+name, item.Kind, "a table", `{ name = "pypi.org" }`))
			continue
		}
		d.addNet(name, offset)
		for fields := item.Children(); fields.Next(); {
			if key := keyOf(fields.Node()); len(key) == 1 {
				d.netItem(name, key[0], fields.Node().Value())
			} else {
				d.unknown(part{joined(key), key[0].offset}, netItemNames(name))
			}
		}
	}
}

// addNet begins the next table of a list.
func (d *decoder) addNet(name string, offset int) {
	n := &d.policy.Net
	if name == netDeny {
		d.places[fmt.Sprintf("net.deny[%d]", len(n.Deny))] = offset
		n.Deny = append(n.Deny, egress.Deny{})
		return
	}
	d.places[fmt.Sprintf("net.allow[%d]", len(n.Rules))] = offset
	n.Rules = append(n.Rules, egress.Rule{})
}

func netItemNames(list string) []string {
	if list == netDeny {
		return []string{"name", "cidr", "ports"}
	}
	return slices.Sorted(maps.Keys((&decoder{}).netSettings(&egress.Rule{})))
}

// netItem reads a setting of the last table of a list.
func (d *decoder) netItem(list string, at part, v *unstable.Node) {
	n := &d.policy.Net
	rule := &egress.Rule{}
	last := len(n.Rules) - 1
	if list == netDeny {
		last = len(n.Deny) - 1
	} else {
		rule = &n.Rules[last]
	}
	read, known := d.netSettings(rule)[at.name]
	if !known || !slices.Contains(netItemNames(list), at.name) {
		d.unknown(at, netItemNames(list))
		return
	}
	field := fmt.Sprintf("net.%s[%d].%s", list, last, at.name)
	if !d.once(field, at.offset) {
		return
	}
	read(field, tomltext.ValueOffset(v, at.offset), v)
	if list == netDeny {
		deny := &n.Deny[last]
		switch at.name {
		case "name":
			deny.Name = rule.Name
		case "cidr":
			deny.CIDR = rule.CIDR
		case "ports":
			deny.Ports = rule.Ports
		}
	}
}

// netSettings are the settings of a rule.
func (d *decoder) netSettings(r *egress.Rule) map[string]netReader {
	text := func(to *string, example string) netReader {
		return func(field string, offset int, v *unstable.Node) {
			d.netText(field, offset, v, example, func(b []byte) error { *to = string(b); return nil })
		}
	}
	return map[string]netReader{
		"name": text(&r.Name, `name = "pypi.org"`), "cidr": text(&r.CIDR, `cidr = "9.9.9.0/24"`),
		"id": text(&r.ID, `id = "packages"`), "reason": text(&r.Reason, `reason = "build phase"`),
		"protocol": d.netEnum(&r.Protocol, `protocol = "http"`), "tls": d.netEnum(&r.TLS, `tls = "intercept"`),
		"methods": d.netList(&r.Methods, `methods = ["GET"]`), "paths": d.netList(&r.Paths, `paths = ["/v1/**"]`), "private": d.netList(&r.Private, `private = ["10.1.2.0/24"]`),
		"websocket": d.netFlag(&r.WebSocket, "websocket = true"), "public-suffix": d.netFlag(&r.PublicSuffix, "public-suffix = true"),
		"ports": func(field string, offset int, v *unstable.Node) {
			r.Ports = d.netPorts(field, offset, v, "ports = [443]")
		},
		"for": func(field string, offset int, v *unstable.Node) {
			d.netText(field, offset, v, `for = "10m"`, func(b []byte) (err error) { r.For, err = parseDuration("for", string(b)); return err })
		},
		"until": func(field string, offset int, v *unstable.Node) {
			d.netText(field, offset, v, `until = "2026-12-31T12:00:00Z"`, func(b []byte) (err error) { r.Until, err = time.Parse(time.RFC3339, string(b)); return err })
		},
		"max-flows": func(field string, offset int, v *unstable.Node) {
			r.MaxFlows = int(d.netNumber(field, offset, v, "max-flows = 10"))
		},
		"max-bytes-out": func(field string, offset int, v *unstable.Node) {
			r.MaxBytesOut = d.netNumber(field, offset, v, "max-bytes-out = 1000000")
		},
		"inject": func(field string, offset int, v *unstable.Node) { r.Inject = d.netInject(field, offset, v) },
	}
}

// netText reads a string.
func (d *decoder) netText(field string, offset int, v *unstable.Node, example string, set func([]byte) error) {
	if v.Kind != unstable.String {
		d.report(tomltext.ValueOffset(v, offset), wrongKind(field, v.Kind, "a string", example))
		return
	}
	if err := set(v.Data); err != nil {
		what := err.Error()
		if p, ok := err.(Problem); ok {
			what = p.What
		}
		d.report(tomltext.ValueOffset(v, offset), Problem{Field: field, What: what, Hint: "write " + example})
	}
}

func (d *decoder) netArray(field string, offset int, v *unstable.Node, example string, kind unstable.Kind, add func(*unstable.Node)) {
	if v.Kind != unstable.Array {
		d.report(offset, wrongKind(field, v.Kind, "a list", example))
		return
	}
	for it := v.Children(); it.Next(); {
		if item := it.Node(); item.Kind == kind {
			add(item)
		} else {
			d.report(tomltext.ValueOffset(item, offset), wrongKind(field, item.Kind, "something else", example))
		}
	}
}

func (d *decoder) netPorts(field string, offset int, v *unstable.Node, example string) []int {
	var out []int
	d.netArray(field, offset, v, example, unstable.Integer, func(item *unstable.Node) {
		out = append(out, int(d.netNumber(field, tomltext.ValueOffset(item, offset), item, example)))
	})
	return out
}

// netNumber reads a whole number that is not negative.
func (d *decoder) netNumber(field string, offset int, v *unstable.Node, example string) int64 {
	if v.Kind != unstable.Integer {
		d.report(offset, wrongKind(field, v.Kind, "a whole number", example))
		return 0
	}
	n, err := strconv.ParseInt(string(v.Data), 0, 64)
	if err != nil || n < 0 || n > 1<<53 {
		d.report(offset, Problem{Field: field, What: fmt.Sprintf("cannot read %s %s: it is out of range", field, v.Data), Hint: "write " + example})
		return 0
	}
	return n
}

// netInject reads the secrets of a rule.
func (d *decoder) netInject(field string, offset int, v *unstable.Node) []egress.Secret {
	const example = `inject = [{ header = "Authorization", variable = "API_TOKEN", prefix = "Bearer " }]`
	var out []egress.Secret
	d.netArray(field, offset, v, example, unstable.InlineTable, func(item *unstable.Node) {
		var s egress.Secret
		fields := map[string]*string{"header": &s.Header, "variable": &s.Variable, "prefix": &s.Prefix}
		for it := item.Children(); it.Next(); {
			key := keyOf(it.Node())
			to, known := fields[joined(key)]
			if !known {
				d.unknown(part{joined(key), key[0].offset}, []string{"header", "variable", "prefix"})
				continue
			}
			d.netText(field+"."+joined(key), key[0].offset, it.Node().Value(), example, func(b []byte) error { *to = strings.Clone(string(b)); return nil })
		}
		out = append(out, s)
	})
	return out
}

// cloneNet is a network policy that shares no slice with n.
func cloneNet(n egress.Policy) egress.Policy {
	n.HostPorts = slices.Clone(n.HostPorts)
	n.Rules, n.Deny, n.Exempt = slices.Clone(n.Rules), slices.Clone(n.Deny), slices.Clone(n.Exempt)
	return n
}
