package stub

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// nasty are texts that end, open or turn round what they are put into.
var nasty = []string{
	"", "\n", "\"\"\"\nimport os\nos.abort()\n\"\"\"", "'''", "\\", "\\\"", "\\u0022", "*/ process.abort() /*", "*/", "// \n", "# \nraise SystemExit",
	"${process.abort()}", "`", "</script>", "\u202Eimport\u202C", "\u2066\u2069", "\u2028process.abort()\u2029", "\x00", "\x1b]0;x\x07", "\ufeff",
	"\xff\xfe", "\xed\xa0\x80", "a\u0301", "שלום", "日本語", "😀", "%s %d %!v", "{0} {x}", "@deprecated", " @param x", "/", "$&", "\r\n", "\r", "\t", "\\N{DASH}",
	"\u0085", "\x0b\x0c", "\u00a0", strings.Repeat("\"", 50), "__import__('os').abort()", "N'; rm -rf /; '", "$(reboot)", "a\tb",
}

// wicked are names.
var wicked = []string{
	"__init__", "__proto__", "__getattr__", "__name__", "__all__", "__path__", "constructor", "prototype", "then", "toString", "../x", "import", "async",
	"await", "None", "print", "map", "call", "callSync", "default", "exports", "require", "module", "arguments", "eval", "aio", "types", "errors", "unset",
	"_call", "_acall", "_optional", "_tool", "_host", "_bridge", "_index", "_helpers", "_HOME", "_MODULES", "TYPE_CHECKING", "annotations", "Any", "Literal",
	"ToolError", "self", "more", "name", "1st", "", "_", "-", "a.b/c", "ünïcode", "日本語", "ﬁ", "😀", "match", "type", "globalThis", "Promise", "Record",
	"TypedDict", "search_tools", "searchTools", "module.exports", "os", "sys", "json", "isolate_tools", "__debug__", "args", "bridge", "tool", "f",
	"hasOwnProperty", "undefined", "let", "yield", "package", "interface", "static", "public", "nonlocal", "lambda", "Tools", "value", "exec",
}

func TestNastyTexts(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	var tools []bridge.Tool
	for i, text := range nasty {
		properties := map[string]*jsonschema.Schema{
			"p": {Type: "string", Description: text, Default: mustJSON(text)},
			"e": {Enum: []any{text, "x", 1.5, true, nil}},
			"o": {Type: "object", Description: text, Properties: map[string]*jsonschema.Schema{"k" + text: {Description: text}, "z": {Const: ptr[any](text)}}},
		}
		if text != "" && text != "_" {
			properties["k"+text] = &jsonschema.Schema{Type: "object", Title: text, Properties: map[string]*jsonschema.Schema{text: {Type: "integer"}}}
		}
		in := &jsonschema.Schema{Type: "object", Description: text, Properties: properties}
		tools = append(tools, bridge.Tool{Name: fmt.Sprintf("t%d", i), Description: text, Input: in, Output: in, Source: "mcp " + fmt.Sprint(i%3)})
	}
	load(t, tools)
}

func TestWickedNames(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	var tools, served []bridge.Tool
	properties := map[string]*jsonschema.Schema{}
	seen, params := map[string]bool{}, map[string]bool{}
	for _, name := range wicked {
		if p := parameter(name); !params[p] {
			params[p] = true
			properties[name] = &jsonschema.Schema{Type: "string"}
		}
	}
	in := &jsonschema.Schema{Type: "object", Properties: properties, Required: wicked[:5]}
	for _, name := range wicked {
		if id := identifier(name); !seen[id] {
			seen[id] = true
			tools = append(tools, bridge.Tool{Name: name, Input: in, Output: in})
			served = append(served, bridge.Tool{Name: name, Source: "mcp " + name, Input: in})
		}
	}
	load(t, tools)
	load(t, served)
}

func TestBigSets(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	deep := &jsonschema.Schema{Type: "string"}
	for range 400 {
		deep = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{deep, {Type: "null"}}}}
	}
	// each definition doubles the one before it when it is written out
	defs := map[string]*jsonschema.Schema{"d0": {Type: "string"}}
	for i := range 40 {
		ref := &jsonschema.Schema{Ref: fmt.Sprintf("#/$defs/d%d", i)}
		defs[fmt.Sprintf("d%d", i+1)] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "array", Items: ref}, {Type: "object", AdditionalProperties: ref}}}
	}
	many := make([]any, 20000)
	for i := range many {
		many[i] = fmt.Sprint("value ", i)
	}
	tools := []bridge.Tool{
		{Name: "deep", Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"x": deep}}, Output: deep},
		{Name: "doubling", Output: &jsonschema.Schema{Ref: "#/$defs/d40", Defs: defs}},
		{Name: "many", Output: &jsonschema.Schema{Enum: many}},
		{Name: "long", Description: strings.Repeat("long \"\"\" */ text\n", 60000), Output: &jsonschema.Schema{Const: ptr[any](strings.Repeat("x", 1<<20))}},
		{Name: strings.Repeat("n", 128)},
	}
	for i := range 100 {
		tools = append(tools, bridge.Tool{Name: fmt.Sprintf("tool_%d", i), Source: "mcp hundred", Description: "One of a hundred.",
			Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"x": {Type: "integer"}}}})
	}
	size := 0
	for _, f := range load(t, tools) {
		if !strings.HasPrefix(f.Path, "tool") {
			size += len(f.Content)
		}
	}
	if size > 1<<20 {
		t.Errorf("the modules have %d bytes: a description is there as a whole", size)
	}
}

func TestRecursiveTypes(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(recursive), &s); err != nil {
		t.Fatal(err)
	}
	load(t, []bridge.Tool{{Name: "r", Input: &s, Output: &s}})
}

const recursive = `{"type":"object","properties":{"self":{"$ref":"#"},"node":{"$ref":"#/$defs/node"},"json":{"$ref":"#/$defs/json"},
	"a":{"$ref":"#/$defs/a"},"none":{"$ref":"#/$defs/none"},"far":{"$ref":"https://example.invalid/x"}},
	"$defs":{
		"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]},"all":{"type":"array","items":{"$ref":"#/$defs/node"}}}},
		"json":{"anyOf":[{"type":["string","number","boolean","null"]},{"type":"array","items":{"$ref":"#/$defs/json"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/json"}}]},
		"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"string"}]},
		"any":{"type":"string"},"Any":{"type":"integer"}}}`

// A dozen schemas, each thirty times all of the next, took the generator hours.
func TestManyWaysToOnePart(t *testing.T) {
	refs := func(n int) string {
		one := fmt.Sprintf(`{"$ref":"#/$defs/x%d"}`, n)
		return `"allOf":[` + strings.Repeat(one+",", 29) + one + `]`
	}
	defs := `"x12":{"type":"object","properties":{"last":{"type":"string"}}}`
	for i := range 12 {
		defs += fmt.Sprintf(`,"x%d":{"type":"object",%s,"properties":{"p%[1]d":{"type":"string"}}}`, i, refs(i+1))
	}
	in := &jsonschema.Schema{}
	if err := json.Unmarshal([]byte(`{"type":"object","$defs":{`+defs+`},`+refs(0)+`}`), in); err != nil {
		t.Fatal(err)
	}
	run := func(context.Context, bridge.Call) (bridge.Reply, error) { return bridge.Reply{}, nil }
	set, err := bridge.NewSet(bridge.Tool{Name: "t", Input: in, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	files, err := Generate(set)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, f := range files {
		all += string(f.Content)
	}
	for _, field := range []string{"p0", "p11", "last"} {
		if !strings.Contains(all, field) {
			t.Errorf("the modules have no parameter %s", field)
		}
	}
}

func TestClashes(t *testing.T) {
	string1 := &jsonschema.Schema{Type: "string"}
	for name, c := range map[string]struct {
		tools []bridge.Tool
		want  []string
	}{
		"tools":    {[]bridge.Tool{{Name: "get-x"}, {Name: "get_x"}, {Name: "import"}, {Name: "import_"}}, []string{`"get-x" and "get_x"`, `"import" and "import_"`}},
		"letters":  {[]bridge.Tool{{Name: "😀"}, {Name: "😁"}}, []string{`"😀" and "😁"`}},
		"params":   {[]bridge.Tool{{Name: "t", Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"a-b": string1, "a.b": string1}}}}, []string{`parameters of tool "t" "a-b" and "a.b"`}},
		"servers":  {[]bridge.Tool{{Name: "x", Source: "mcp a-b"}, {Name: "y", Source: "mcp a_b"}}, []string{`servers "a-b" and "a_b"`}},
		"in group": {[]bridge.Tool{{Name: "s_list", Source: "mcp s"}, {Name: "s_list_", Source: "mcp s"}}, []string{`"s_list" and "s_list_"`}},
	} {
		_, err := generate(c.tools)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v: does not name %s", name, err, w)
			}
		}
	}
}

func mustJSON(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

func ptr[T any](v T) *T { return &v }
