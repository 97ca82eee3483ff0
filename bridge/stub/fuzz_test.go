package stub

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// FuzzGenerate: whatever tools are called and say of themselves, the modules
// are either refused or load, and say and send just that.
func FuzzGenerate(f *testing.F) {
	testenv.Require(f, testenv.Python3, testenv.Node)
	for i, text := range nasty {
		f.Add(wicked[i%len(wicked)], wicked[(i+1)%len(wicked)], text, table[i%len(table)].schema)
	}
	f.Add("a", "b", "text", recursive)
	f.Add("a", "a", "text", `{"properties":{"a":{"default":[{"x":null}]},"from":{"default":"'"},"b-c":{"default":1e400}},"required":["a","z"]}`)
	f.Fuzz(func(t *testing.T, first, second, text, schema string) {
		var s jsonschema.Schema
		if json.Unmarshal([]byte(schema), &s) != nil {
			s = jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
				second: {Description: text, Default: mustJSON(schema)}, text: {Const: ptr[any](schema)}}}
		}
		tools := []bridge.Tool{
			{Name: first, Description: text, Input: &s, Output: &s, Source: "mcp " + second},
			{Name: second, Description: schema, Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{first: &s, text: {Description: text}}}},
			{Name: first + second, Output: &jsonschema.Schema{Type: "array", Description: text, Items: &s}, Source: "mcp x" + first},
		}
		if _, err := generate(tools); err != nil {
			return // a clash, which TestClashes looks at
		}
		load(t, tools)
	})
}
