package policy

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/internal/tomltext"
)

// This file reads the single entries of a policy file; decode.go walks over
// them. Nodes live until the parser goes on: nothing here keeps one.

// entry reads one key-value with the whole key it has.
func (d *decoder) entry(path []part, v *unstable.Node) {
	k, ok := d.known(path[0])
	if !ok {
		return
	}
	switch rest := path[1:]; k.name {
	case keyEnv:
		d.env(k, path[0], rest, v)
	case keyNet:
		d.net(k, path[0], rest, v)
	case keyReadOnly:
		d.readOnly(k, path[0], rest, v)
	default:
		if len(rest) > 0 {
			d.report(path[0].offset, notTable(k, joined(path)))
			return
		}
		if !d.once(k.name, path[0].offset) {
			return
		}
		if k.name == keyAllow {
			d.allow(k, path[0].offset, v)
			return
		}
		d.scalar(k, path[0].offset, v)
	}
}

// scalar reads the value of a setting with a single one.
func (d *decoder) scalar(k key, keyOffset int, v *unstable.Node) {
	offset := tomltext.ValueOffset(v, keyOffset)
	d.places[k.name] = offset
	for _, kind := range k.kinds {
		if v.Kind == kind {
			d.reportError(offset, k.name, k.set(&d.policy, string(v.Data)))
			return
		}
	}
	d.report(offset, wrongKind(k.name, v.Kind, k.takes, k.example))
}

// reportError reports the error of a Parse function, if it is one.
func (d *decoder) reportError(offset int, field string, err error) {
	var p Problem
	if errors.As(err, &p) {
		p.Field = field
		d.report(offset, p)
	}
}

// allow reads the list of weakenings. That each is known and there once is
// for checkFields.
func (d *decoder) allow(k key, keyOffset int, v *unstable.Node) {
	if v.Kind != unstable.Array {
		d.report(tomltext.ValueOffset(v, keyOffset), wrongKind(k.name, v.Kind, k.takes, k.example))
		return
	}
	for it := v.Children(); it.Next(); {
		item := it.Node()
		offset := tomltext.ValueOffset(item, keyOffset)
		if item.Kind != unstable.String {
			d.report(offset, wrongKind(k.name, item.Kind, "a name in quotes", k.example))
			continue
		}
		d.places[fmt.Sprintf("allow[%d]", len(d.policy.Allow))] = offset
		d.policy.Allow = append(d.policy.Allow, Weakening(item.Data))
	}
}

// env reads a variable, or a whole table of them written inline. The names
// and values are for checkFields.
func (d *decoder) env(k key, at part, rest []part, v *unstable.Node) {
	if len(rest) == 0 {
		if v.Kind != unstable.InlineTable {
			d.report(tomltext.ValueOffset(v, at.offset), wrongKind(k.name, v.Kind, k.takes, k.example))
			return
		}
		if d.once(k.name, at.offset) {
			for it := v.Children(); it.Next(); {
				d.env(k, at, keyOf(it.Node()), it.Node().Value())
			}
		}
		return
	}
	if _, ok := d.places[k.name]; !ok {
		d.places[k.name] = at.offset
	}
	field := "env." + joined(rest)
	offset := tomltext.ValueOffset(v, rest[0].offset)
	switch {
	case !d.once(field, rest[0].offset):
	case len(rest) > 1:
		d.report(rest[0].offset, Problem{
			Field: field,
			What:  fmt.Sprintf("cannot set variable %s: a name has no dot", quote(joined(rest))),
			Hint:  "write " + k.example,
		})
	case v.Kind != unstable.String:
		d.report(offset, wrongKind(field, v.Kind, "a string", "the value in quotes"))
	default:
		if d.policy.Env == nil {
			d.policy.Env = map[string]string{}
		}
		d.policy.Env[rest[0].name] = string(v.Data)
	}
}

// readOnly reads a setting of a bind, or all binds written as one list.
func (d *decoder) readOnly(k key, at part, rest []part, v *unstable.Node) {
	switch {
	case len(rest) > 0 && d.table != nil:
		d.bind(rest, v)
	case len(rest) > 0:
		d.report(at.offset, notTable(k, joined(append([]part{at}, rest...))))
	case v.Kind != unstable.Array:
		d.report(tomltext.ValueOffset(v, at.offset), wrongKind(k.name, v.Kind, k.takes, k.example))
	case d.once(k.name, at.offset):
		for it := v.Children(); it.Next(); {
			item := it.Node()
			if item.Kind != unstable.InlineTable {
				d.report(tomltext.ValueOffset(item, at.offset), wrongKind(k.name, item.Kind, "a table with source and target", k.example))
				continue
			}
			d.addBind(at.offset)
			for fields := item.Children(); fields.Next(); {
				d.bind(keyOf(fields.Node()), fields.Node().Value())
			}
		}
	}
}

// addBind begins the next bind.
func (d *decoder) addBind(offset int) {
	d.places[fmt.Sprintf("read-only[%d]", len(d.policy.ReadOnly))] = offset
	d.policy.ReadOnly = append(d.policy.ReadOnly, Bind{})
}

// bind reads source or target of the last bind.
func (d *decoder) bind(rest []part, v *unstable.Node) {
	last := len(d.policy.ReadOnly) - 1
	b := &d.policy.ReadOnly[last]
	fields := map[string]*string{"source": &b.Source, "target": &b.Target}
	text, ok := fields[rest[0].name]
	if !ok || len(rest) > 1 {
		d.unknown(part{joined(rest), rest[0].offset}, []string{"source", "target"})
		return
	}
	field := fmt.Sprintf("read-only[%d].%s", last, rest[0].name)
	if !d.once(field, rest[0].offset) {
		return
	}
	offset := tomltext.ValueOffset(v, rest[0].offset)
	d.places[field] = offset
	example := rest[0].name + ` = "/srv/data"`
	switch {
	case v.Kind != unstable.String:
		d.report(offset, wrongKind(field, v.Kind, "a path in quotes", example))
	case len(v.Data) == 0:
		d.reportError(offset, field, refuse(field, "", "it is empty", "write "+example))
	default:
		*text = string(v.Data)
	}
}
