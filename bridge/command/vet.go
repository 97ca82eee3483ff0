package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/isolate-run/isolate/internal/nearest"
)

// JSON Schema ignores what it does not know. For whoever writes a schema to
// keep a program within it, a misspelt keyword is then a check that is not
// made: vetter finds such words.

// holds says what is in the value of a keyword.
type holds int

const (
	plainValue  holds = iota // nothing to look at
	oneSchema                // a schema, or a list of them
	namedSchema              // an object of schemas, by names
	typeNames                // a type, or a list of them
)

// keywords are those of JSON Schema, drafts 4 to 2020-12.
var keywords = func() map[string]holds {
	all := map[string]holds{"type": typeNames}
	for kind, words := range map[holds]string{
		oneSchema: `additionalItems additionalProperties allOf anyOf contains contentSchema else if items not oneOf
			prefixItems propertyNames then unevaluatedItems unevaluatedProperties`,
		namedSchema: `$defs definitions dependentSchemas dependencies patternProperties properties`,
		plainValue: `$anchor $comment $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref $schema $vocabulary
			const contentEncoding contentMediaType default dependentRequired deprecated description enum example examples
			exclusiveMaximum exclusiveMinimum format id maxContains maxItems maxLength maxProperties maximum minContains
			minItems minLength minProperties minimum multipleOf pattern readOnly required title uniqueItems writeOnly`,
	} {
		for _, w := range strings.Fields(words) {
			all[w] = kind
		}
	}
	return all
}()

var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// maxProblems bounds how many are told of one schema.
const maxProblems = 5

// vetter collects what is wrong with a schema, in words.
type vetter struct{ problems []string }

func (v *vetter) wrong(format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, fmt.Sprintf(format, args...))
	}
}

// place is where something stands, for people.
func place(at string) string {
	if at == "" {
		return ""
	}
	return " in " + at
}

func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// schema looks at a schema and what is in it. How deep it is, is bounded by the
// decoder that has read it.
func (v *vetter) schema(raw json.RawMessage, at string) {
	var keys object
	if text := string(raw); text == "true" || text == "false" {
		return
	}
	if json.Unmarshal(raw, &keys) != nil || keys == nil {
		v.wrong("there is no schema%s, but %.40q", place(at), raw)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		kind, is := keywords[k]
		switch {
		case !is:
			v.unknown(k, at)
		case kind == typeNames:
			v.types(keys[k], at)
		case kind == oneSchema:
			v.list(keys[k], below(at, k))
		case kind == namedSchema:
			v.named(keys[k], below(at, k))
		}
	}
}

func (v *vetter) unknown(key, at string) {
	if strings.HasPrefix(key, "x-") {
		return
	}
	words := slices.Sorted(maps.Keys(keywords))
	hint := `the arguments are described under "properties"`
	if at == "" {
		words = append(words, "input", "output", "read_only", "input_schema", "inputSchema")
	}
	if near, ok := nearest.Word(key, words); ok {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if at != "" {
		hint = `a keyword of your own begins with "x-"`
	}
	v.wrong("unknown keyword %q%s; %s", key, place(at), hint)
}

func (v *vetter) types(raw json.RawMessage, at string) {
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		names = []string{""}
		if json.Unmarshal(raw, &names[0]) != nil {
			v.wrong("the type%s is neither a text nor a list of texts", place(at))
			return
		}
	}
	for _, n := range names {
		if slices.Contains(schemaTypes, n) {
			continue
		}
		hint := "the types are " + strings.Join(schemaTypes, ", ")
		if near, ok := nearest.Word(n, schemaTypes); ok {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		v.wrong("unknown type %q%s; %s", n, place(at), hint)
	}
}

func (v *vetter) list(raw json.RawMessage, at string) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		v.schema(raw, at)
		return
	}
	for i, s := range list {
		v.schema(s, at+"["+strconv.Itoa(i)+"]")
	}
}

func (v *vetter) named(raw json.RawMessage, at string) {
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || parts == nil {
		v.wrong("there is no object%s, but %.40q", place(at), raw)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		// dependencies may also be lists of names
		if s := parts[name]; len(s) == 0 || s[0] != '[' {
			v.schema(s, below(at, name))
		}
	}
}
