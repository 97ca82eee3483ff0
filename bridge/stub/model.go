package stub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/bridge"
)

// host is the Python module of the tools that no server brings.
const host = "_host"

// model is a set of tools as all languages see it.
type model struct {
	tools  []*tool
	groups []*group
	types  []*named // of all tools
}

// group is one Python module.
type group struct {
	name  string // an identifier
	about string
	tools []*tool
}

type tool struct {
	bridge.Tool
	id     string // in the flat modules
	short  string // in its group's Python module
	args   string // the type of its arguments in TypeScript
	group  *group
	fields []field
	more   *shape // of arguments beyond fields; nil if there may be none
	result *shape
	types  []*named // that these have
	// schemas as JSON; nil if there is none to show
	input, output json.RawMessage

	params []string // Python's names of fields
	rest   string   // Python's name for more
}

func newModel(tools []bridge.Tool) (*model, error) {
	m := &model{}
	names := newTidy("tools")
	var errs []error
	for _, bt := range tools {
		t := &tool{Tool: bt, id: identifier(bt.Name)}
		names.take(t.id, t.Name)
		m.tools = append(m.tools, t)
	}
	errs = append(errs, names.err(), m.sort(names))
	used := namer{}
	for word := range words("Any Literal TypedDict Promise Record Array Error ToolError Tools Partial Required Function Object") {
		used[word] = true
	}
	for _, t := range m.tools {
		used[t.id], used[t.short] = true, true
	}
	for _, t := range m.tools {
		errs = append(errs, t.shapes(m, used))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cannot generate modules: %w", err)
	}
	return m, nil
}

// sort puts the tools into Python modules: one for each MCP server, one for
// all others.
func (m *model) sort(flat *tidy) error {
	own := &group{name: host, about: "Tools of the host."}
	servers := map[string]*group{}
	modules := newTidy("servers")
	var errs []error
	for _, t := range m.tools {
		t.group = own
		if server, is := strings.CutPrefix(t.Source, "mcp "); is && server != "" {
			g := servers[server]
			if g == nil {
				g = &group{name: identifier(server), about: "Tools of the MCP server " + firstLine(server) + "."}
				for flat.from[g.name] != "" {
					g.name += "_"
				}
				modules.take(g.name, server)
				servers[server] = g
				m.groups = append(m.groups, g)
			}
			t.group = g
		}
		t.group.tools = append(t.group.tools, t)
	}
	if len(own.tools) > 0 {
		m.groups = append(m.groups, own)
	}
	errs = append(errs, modules.err())
	for _, g := range m.groups {
		shorts := newTidy("tools")
		for _, t := range g.tools {
			t.short = t.id
			if rest, is := strings.CutPrefix(t.id, strings.TrimRight(g.name, "_")+"_"); is && g != own && rest != "" {
				t.short = identifier(rest)
			}
			shorts.take(t.short, t.Name)
		}
		errs = append(errs, shorts.err())
	}
	return errors.Join(errs...)
}

// shapes makes types of a tool's schemas.
func (t *tool) shapes(m *model, used namer) error {
	title := pascal(t.Name)
	t.args = used.unique(title + "Args")
	t.input, t.output = schema(t.Input), schema(t.Output)
	t.Description = strings.ToValidUTF8(t.Description, "\uFFFD")
	in := t.Input
	if in == nil {
		in = &jsonschema.Schema{}
	}
	s := newShaper(in, title, used)
	parts := s.parts(in)
	var open bool
	t.fields, open = s.fields(parts, title, 0)
	switch {
	case len(t.fields) > 0 && open:
		t.more = any1
	case len(t.fields) == 0 && in.Properties == nil && !never(in.AdditionalProperties):
		t.more = s.shape(in.AdditionalProperties, title+"Value", 1)
	}
	t.types = s.types
	t.result = any1
	if t.Output != nil {
		s := newShaper(t.Output, title, used)
		t.result = s.shape(t.Output, title+"Result", 0)
		t.types = append(t.types, s.types...)
	}
	m.types = append(m.types, t.types...)
	params := newTidy("parameters of tool " + fmt.Sprintf("%q", t.Name))
	for _, f := range t.fields {
		p := parameter(f.name)
		params.take(p, f.name)
		t.params = append(t.params, p)
	}
	t.rest = "more"
	for params.from[t.rest] != "" {
		t.rest += "_"
	}
	return params.err()
}

// usable says whether a signature can show the field's default.
func (f field) usable() (value any, ok bool) {
	if f.required || f.preset == nil || len(f.preset) > 200 {
		return nil, false
	}
	value, err := decode(f.preset)
	return value, err == nil
}

func (t *tool) readOnly() bool { return t.Effect == bridge.ReadOnly }

// schema is a schema as JSON; nil if there is none, or none that every reader
// of JSON could take.
func schema(s *jsonschema.Schema) json.RawMessage {
	if s == nil {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil || nesting(b) > maxNesting {
		return nil
	}
	return b
}

// maxNesting bounds a schema that is shown; Python's reader gives up at 1000.
const maxNesting = 100

// nesting is how deep a JSON text goes; brackets in strings may add to it.
func nesting(b []byte) (deepest int) {
	depth := 0
	for _, c := range b {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}
