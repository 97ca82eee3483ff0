package bridge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// The validator says where in the schema it stopped, in its own words. A
// program's author wants to know which argument is wrong: this looks for the
// first that visibly is. It decides nothing.

// explainer walks arguments and schema side by side.
type explainer struct {
	c *checker
	// steps bounds the walk: references may branch.
	steps int
}

// explain returns the path of the first part of a value that does not fit,
// empty for the whole, and what is wrong with it, empty if that is not seen.
func (c *checker) explain(v any) (at, fault string) {
	e := explainer{c: c, steps: 100_000}
	return e.look(c.schema, v, "")
}

// explainArgs says why arguments were refused, and which; see explain.
func (c *checker) explainArgs(args any) (at, why string) {
	at, fault := c.explain(args)
	switch {
	case fault == "":
		return "", "the arguments do not fit the tool's schema"
	case at == "":
		return "", "the arguments " + fault
	}
	return at, "argument " + shown(at) + " " + fault
}

func (e *explainer) look(s *jsonschema.Schema, v any, path string) (at, fault string) {
	s = e.c.target(s)
	e.steps--
	if s == nil || e.steps < 0 {
		return "", ""
	}
	if f := typeFault(s, v); f != "" {
		return path, f
	}
	if f := valueFault(s, v); f != "" {
		return path, f
	}
	for _, sub := range s.AllOf {
		if at, f := e.look(sub, v, path); f != "" {
			return at, f
		}
	}
	if f := e.choice(s, v, path); f != "" {
		return path, f
	}
	switch v := v.(type) {
	case map[string]any:
		return e.object(s, v, path)
	case []any:
		return e.array(s, v, path)
	}
	return "", ""
}

// choice looks at anyOf and oneOf, where no form alone is the wrong one.
func (e *explainer) choice(s *jsonschema.Schema, v any, path string) string {
	for _, forms := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		fits := len(forms) == 0
		for _, sub := range forms {
			if _, f := e.look(sub, v, path); f == "" {
				fits = true
			}
		}
		if !fits {
			return "has none of the forms that are allowed"
		}
	}
	return ""
}

func (e *explainer) object(s *jsonschema.Schema, v map[string]any, path string) (at, fault string) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return below(path, name), "is required"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		sub, known := s.Properties[name]
		switch {
		case known:
			if at, f := e.look(sub, v[name], below(path, name)); f != "" {
				return at, f
			}
		case len(s.PatternProperties) == 0 && s.AdditionalProperties != nil:
			if never(s.AdditionalProperties) {
				return below(path, name), "is unknown"
			}
			if at, f := e.look(s.AdditionalProperties, v[name], below(path, name)); f != "" {
				return at, f
			}
		}
	}
	switch n := len(v); {
	case s.MinProperties != nil && n < *s.MinProperties:
		return path, fmt.Sprintf("must have at least %d fields", *s.MinProperties)
	case s.MaxProperties != nil && n > *s.MaxProperties:
		return path, fmt.Sprintf("must have at most %d fields", *s.MaxProperties)
	}
	return "", ""
}

func (e *explainer) array(s *jsonschema.Schema, v []any, path string) (at, fault string) {
	switch n := len(v); {
	case s.MinItems != nil && n < *s.MinItems:
		return path, fmt.Sprintf("must have at least %d items", *s.MinItems)
	case s.MaxItems != nil && n > *s.MaxItems:
		return path, fmt.Sprintf("must have at most %d items", *s.MaxItems)
	}
	for i, item := range v {
		sub := s.Items
		if i < len(s.PrefixItems) {
			sub = s.PrefixItems[i]
		}
		if at, f := e.look(sub, item, path+"["+strconv.Itoa(i)+"]"); f != "" {
			return at, f
		}
	}
	if s.UniqueItems {
		return e.twice(v, path)
	}
	return "", ""
}

func (e *explainer) twice(v []any, path string) (at, fault string) {
	seen := map[string]bool{}
	for _, item := range v {
		text := string(appendCanonical(nil, item))
		if seen[text] {
			return path, "must not have the same item twice"
		}
		seen[text] = true
	}
	return "", ""
}

// below is the path of a member. Names that are no plain words are quoted.
func below(path, name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
	switch {
	case !plain:
		return path + "[" + shown(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// never says whether s is the schema that nothing fits, which is how "false"
// is read.
func never(s *jsonschema.Schema) bool {
	text, err := json.Marshal(s)
	return err == nil && (string(text) == "false" || string(text) == `{"not":{}}` || string(text) == `{"not":true}`)
}

func typeFault(s *jsonschema.Schema, v any) string {
	want := s.Types
	if s.Type != "" {
		want = []string{s.Type}
	}
	have := typeName(v)
	if len(want) == 0 || slices.Contains(want, have) || have == "integer" && slices.Contains(want, "number") {
		return ""
	}
	named := make([]string, len(want))
	for i, w := range want {
		named[i] = article(w)
	}
	return "must be " + strings.Join(named, " or ") + ", not " + article(have)
}

// typeName is the type of a value as schemas name it.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err == nil && f == math.Trunc(f) {
			return "integer"
		}
	}
	return "number"
}

func article(word string) string {
	switch word {
	case "null":
		return word
	case "integer", "array", "object":
		return "an " + word
	}
	return "a " + word
}

// valueFault looks at enum, const, bounds of numbers and lengths of texts.
func valueFault(s *jsonschema.Schema, v any) string {
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return jsonschema.Equal(e, native(v)) }) {
		return "must be one of " + enumText(s.Enum)
	}
	if s.Const != nil && !jsonschema.Equal(*s.Const, native(v)) {
		return "must be " + enumText([]any{*s.Const})
	}
	switch v := v.(type) {
	case string:
		return textFault(s, v)
	case number:
		f, _ := strconv.ParseFloat(string(v), 64) // parse has seen that it fits
		return numberFault(s, f)
	}
	return ""
}

func enumText(values []any) string {
	var list []string
	for i, v := range values {
		text, err := json.Marshal(v)
		if i == 20 || err != nil {
			list = append(list, "...")
			break
		}
		list = append(list, cut(string(text), shownMax))
	}
	return strings.Join(list, ", ")
}

func textFault(s *jsonschema.Schema, v string) string {
	switch n := utf8.RuneCountInString(v); {
	case s.MinLength != nil && n < *s.MinLength:
		return fmt.Sprintf("must have at least %d characters", *s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Sprintf("must have at most %d characters", *s.MaxLength)
	}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(v) {
			return "must match the pattern " + shown(s.Pattern)
		}
	}
	return ""
}

func numberFault(s *jsonschema.Schema, f float64) string {
	for _, b := range []struct {
		bound *float64
		sign  int // of f compared with the bound, when it is wrong
		or    bool
		text  string
	}{
		{s.Minimum, -1, false, "at least"},
		{s.Maximum, 1, false, "at most"},
		{s.ExclusiveMinimum, -1, true, "more than"},
		{s.ExclusiveMaximum, 1, true, "less than"},
	} {
		if b.bound == nil {
			continue
		}
		if d := cmp.Compare(f, *b.bound); d == b.sign || b.or && d == 0 {
			return "must be " + b.text + " " + strconv.FormatFloat(*b.bound, 'g', -1, 64)
		}
	}
	return ""
}
