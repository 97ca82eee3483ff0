package bridge

import (
	"cmp"
	"fmt"
	"slices"
)

// maxToolName bounds the name of a tool, in bytes (as MCP does).
const maxToolName = 128

// CheckName says whether name can be a tool's: 1 to 128 letters, digits,
// underscores, hyphens, dots or slashes.
func CheckName(name string) error {
	if name == "" || len(name) > maxToolName {
		return fmt.Errorf("tool name %s has not 1 to %d characters", shown(name), maxToolName)
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/') {
			return fmt.Errorf("tool name %s may hold letters, digits and _-./ only", shown(name))
		}
	}
	return nil
}

// Set is a checked set of tools. It is never changed after NewSet made it and
// may be shared by any number of brokers.
type Set struct {
	tools  []Tool
	byName map[string]*entry
}

// entry is a tool that was checked.
type entry struct {
	Tool
	input  *checker // nil for any object
	output *checker // nil for any value
}

// NewSet checks names, clashes and schemas. The error names the tool. A tool
// without Source is a Go function's.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{tools: slices.Clone(tools), byName: make(map[string]*entry, len(tools))}
	slices.SortFunc(s.tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range s.tools {
		t.Source = cmp.Or(t.Source, "go")
		s.tools[i] = t
		e, err := newEntry(t)
		if err != nil {
			return nil, err
		}
		if other := s.byName[t.Name]; other != nil {
			return nil, fmt.Errorf("two tools are named %q (from %s and %s); rename one or leave one out",
				t.Name, other.Source, t.Source)
		}
		s.byName[t.Name] = e
	}
	return s, nil
}

func newEntry(t Tool) (*entry, error) {
	if err := CheckName(t.Name); err != nil {
		return nil, err
	}
	switch {
	case t.Run == nil:
		return nil, fmt.Errorf("tool %q has no Run", t.Name)
	case t.Timeout < 0 || t.MaxCalls < 0:
		return nil, fmt.Errorf("tool %q has a negative limit", t.Name)
	case t.Effect < MayWrite || t.Effect > ReadOnly || t.Approve < ApproveNever || t.Approve > ApproveWrites:
		return nil, fmt.Errorf("tool %q has an unknown Effect or Approve", t.Name)
	}
	e := &entry{Tool: t}
	if t.Input != nil {
		c, err := newArgsChecker(t.Input)
		if err != nil {
			return nil, fmt.Errorf("cannot use the input schema of tool %q: %w", t.Name, err)
		}
		e.input = c
	}
	if t.Output != nil && t.Output != t.derived {
		c, err := newChecker(t.Output)
		if err != nil {
			return nil, fmt.Errorf("cannot use the output schema of tool %q: %w", t.Name, err)
		}
		e.output = c
	}
	return e, nil
}

// Tools are the tools of the set, sorted by name.
func (s *Set) Tools() []Tool { return slices.Clone(s.tools) }
