package stub

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// table is what becomes of each kind of schema.
var table = []struct{ name, schema, python, script string }{
	{"nothing known", `{}`, "Any", "unknown"},
	{"true", `true`, "Any", "unknown"},
	{"null", `{"type":"null"}`, "None", "null"},
	{"boolean", `{"type":"boolean"}`, "bool", "boolean"},
	{"integer", `{"type":"integer","minimum":1}`, "int", "number"},
	{"number", `{"type":"number"}`, "float", "number"},
	{"string", `{"type":"string","format":"date"}`, "str", "string"},
	{"enum", `{"enum":["a","b",1,true]}`, `Literal["a", "b", 1, True]`, `"a" | "b" | 1 | true`},
	{"enum with null", `{"type":["string","null"],"enum":["a",null]}`, `Literal["a"] | None`, `"a" | null`},
	{"enum of fractions", `{"enum":[1.5,2]}`, `Literal[2] | float`, `1.5 | 2`},
	{"const", `{"const":"x"}`, `Literal["x"]`, `"x"`},
	{"const object", `{"const":{"a":1}}`, "Any", "unknown"},
	{"nullable", `{"type":["integer","null"]}`, "int | None", "number | null"},
	{"anyOf", `{"anyOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]}`, "str | int | None", "string | null | number"},
	{"oneOf", `{"oneOf":[{"type":"string"},{"type":"string","format":"x"}]}`, "str", "string"},
	{"anyOf with anything", `{"anyOf":[{"type":"string"},{}]}`, "Any", "unknown"},
	{"allOf one", `{"allOf":[{"type":"string"}]}`, "str", "string"},
	{"array", `{"type":"array","items":{"type":"string"}}`, "list[str]", "string[]"},
	{"array of unions", `{"type":"array","items":{"type":["string","null"]}}`, "list[str | None]", "(string | null)[]"},
	{"array of anything", `{"type":"array"}`, "list[Any]", "unknown[]"},
	{"tuple", `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2}`, "tuple[str, int]", "[string, number]"},
	{"old tuple", `{"type":"array","items":[{"type":"string"},{"type":"integer"}],"additionalItems":false,"minItems":2}`, "tuple[str, int]", "[string, number]"},
	{"open tuple", `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, "list[str | int]", "(string | number)[]"},
	{"dict", `{"type":"object","additionalProperties":{"type":"integer"}}`, "dict[str, int]", "Record<string, number>"},
	{"any object", `{"type":"object"}`, "dict[str, Any]", "Record<string, unknown>"},
	{"no properties", `{"type":"object","additionalProperties":false}`, "dict[str, Any]", "Record<string, unknown>"},
	{"object", `{"type":"object","properties":{"a":{"type":"string"}}}`, "X", "X"},
	{"object of parts", `{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}},"required":["a"]}]}`, "X", "X"},
	{"definition", `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}`, "str", "TAB"},
	{"outside", `{"$ref":"https://example.invalid/"}`, "Any", "unknown"},
	{"itself", `{"$ref":"#"}`, "Any", "X"},
	{"never", `false`, "Any", "unknown"},
}

func TestTypes(t *testing.T) {
	for _, c := range table {
		s := newShaper(parseSchema(t, c.schema), "T", namer{})
		sh := s.shape(s.root, "X", 0)
		if got := (&pythonTypes{names: map[string]bool{}}).of(sh); got != c.python {
			t.Errorf("%s: Python's type is %s, want %s", c.name, got, c.python)
		}
		if got := scriptType(sh, top); got != c.script {
			t.Errorf("%s: TypeScript's type is %s, want %s", c.name, got, c.script)
		}
	}
}

func parseSchema(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// typescript is where npm put TypeScript and json-schema-to-typescript.
func typescript(t *testing.T) string {
	dir := os.Getenv("ISOLATE_TEST_NPM")
	for _, name := range []string{".bin/tsc", "json-schema-to-typescript"} {
		if _, err := os.Stat(filepath.Join(dir, name)); dir == "" || err != nil {
			t.Skipf("needs %s in the node_modules that ISOLATE_TEST_NPM names", name)
		}
	}
	return dir
}

// check runs tsc, as strict as it can be, over files beside node_modules.
func check(t *testing.T, packages, dir string, files ...string) (output string, ok bool) {
	t.Helper()
	args := []string{"--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext",
		"--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"}
	cmd := exec.Command(filepath.Join(packages, ".bin", "tsc"), append(args, files...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func put(t *testing.T, dir string, files ...File) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tables is a tool for each row, and one for all texts and names that are bad.
func tables(t *testing.T) []bridge.Tool {
	all := map[string]*jsonschema.Schema{}
	var tools []bridge.Tool
	for i, c := range table {
		s := parseSchema(t, c.schema)
		tools = append(tools, bridge.Tool{Name: "row_" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Output: s,
			Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"x": s}}})
		if !strings.Contains(c.schema, "#") {
			all[c.name] = s
		}
	}
	for i, text := range nasty {
		all[text] = &jsonschema.Schema{Description: text, Enum: []any{text, i}}
	}
	tools = append(tools, bridge.Tool{Name: "all", Description: strings.Join(nasty, "\n"), Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"x": {Properties: all}}}})
	r := parseSchema(t, recursive)
	return append(tools, bridge.Tool{Name: "recursive", Input: r, Output: r})
}

func TestDeclarations(t *testing.T) {
	packages := typescript(t)
	files, err := generate(append(tables(t), bridge.Tool{Name: "get-invoice",
		Input:  parseSchema(t, `{"type":"object","properties":{"number":{"type":"string"},"currency":{"enum":["EUR","USD"]}},"required":["number"]}`),
		Output: parseSchema(t, `{"type":"object","properties":{"total":{"type":"number"},"lines":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"}}}}},"required":["total"]}`)}))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, files...)
	bad := &page{}
	bad.line("import * as t from 'isolate-tools';")
	for _, line := range []string{
		`await t.get_invoice({});`, `await t.get_invoice({ number: 1 });`, `await t.get_invoice({ number: "", currency: "DM" });`,
		`await t.get_invoice({ number: "", x: 1 });`, `(await t.get_invoice({ number: "" })).total.length;`,
		`t.callSync("get-invoice", {});`, `t.no_such();`, `export const x: string = t.get_invoice.sync({ number: "" }).lines;`,
	} {
		bad.line("// @ts-expect-error")
		bad.line("%s", line)
	}
	put(t, dir, File{Path: "good.mts", Content: []byte(goodProgram)}, File{Path: "good.cts", Content: []byte(goodScript)},
		File{Path: "bad.mts", Content: []byte(bad.String())})
	if out, ok := check(t, packages, dir, "good.mts", "good.cts", "bad.mts", "node_modules/isolate-tools/index.d.ts"); !ok {
		t.Errorf("tsc: %s", out)
	}
}

const goodProgram = `import { get_invoice, call, callSync, map, searchTools, recursive, ToolError, ToolDenied } from 'isolate-tools';
const i = await get_invoice({ number: "A", currency: "EUR" });
const total: number = i.total;
const text: string | undefined = i.lines?.[0]?.text;
const n: number = callSync("get-invoice", { number: "A" }).total;
const m: number[] = (await map(get_invoice, [{ number: "A" }])).map((x) => x.total);
const u: unknown = await call("something", { x: 1 });
const lines: string[] = searchTools("x");
const deep = (await recursive()).node?.next?.next?.all?.[0]?.next;
try { get_invoice.sync({ number: "" }); } catch (e) { if (e instanceof ToolError && e.code === "x") { const d: ToolDenied = e; } }
export { total, text, n, m, u, lines, deep };
`

const goodScript = `import tools = require('isolate-tools');
const n: number = tools.get_invoice.sync({ number: "A" }).total;
export { n };
`

// What json-schema-to-typescript makes of the same schemas is the same type.
func TestDeclarationsAsOthersMakeThem(t *testing.T) {
	packages := typescript(t)
	schemas := map[string]string{}
	var tools []bridge.Tool
	var program strings.Builder
	program.WriteString("import type * as ours from 'isolate-tools';\nimport type * as theirs from './theirs.js';\n" +
		"type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : [A] extends [B] ? ([B] extends [A] ? true : false) : false;\n")
	for name, schema := range map[string]string{
		"Scalars": `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"number"},"d":{"type":"boolean"},"e":{"type":"null"},"f":{}},"required":["a","e"],"additionalProperties":false}`,
		"Unions":  `{"type":"object","properties":{"a":{"enum":["x","y",1,null]},"b":{"const":"z"},"c":{"type":["string","null"]},"d":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"number"}}]},"e":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"additionalProperties":false}`,
		"Nested":  `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"type":"object","properties":{"c d":{"type":"string"}},"additionalProperties":false}}},"required":["b"],"additionalProperties":false}},"additionalProperties":false}`,
		"Dicts":   `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},"b":{"type":"object","additionalProperties":{"type":"array","items":{"type":"boolean"}}}},"additionalProperties":false}`,
		"Tuples":  `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}],"minItems":2,"maxItems":2,"additionalItems":false}},"additionalProperties":false}`,
		"Parts":   `{"type":"object","properties":{"a":{"$ref":"#/definitions/node"}},"definitions":{"node":{"type":"object","properties":{"next":{"$ref":"#/definitions/node"},"v":{"type":"string"}},"required":["v"],"additionalProperties":false}},"additionalProperties":false}`,
	} {
		schemas[name] = schema
		tools = append(tools, bridge.Tool{Name: name, Output: parseSchema(t, schema)})
		program.WriteString("export const same" + name + ": Same<ours." + name + "Result, theirs." + name + "> = true;\n")
	}
	program.WriteString("// @ts-expect-error\nexport const different: Same<ours.ScalarsResult, theirs.Unions> = true;\n")
	files, err := generate(tools)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, files...)
	list, _ := json.Marshal(schemas)
	cmd := exec.Command("node", "-e", `
const { compile } = require(process.argv[1] + '/json-schema-to-typescript');
(async () => {
  for (const [name, schema] of Object.entries(JSON.parse(process.argv[2]))) {
    const text = await compile(JSON.parse(schema), name, { bannerComment: '', unknownAny: true, format: false });
    console.log(text.replace(/\b(Node)\b/g, name + '$1'));
  }
})()`, packages, string(list))
	theirs, err := cmd.Output()
	if err != nil {
		t.Fatalf("json-schema-to-typescript: %v", err)
	}
	put(t, dir, File{Path: "theirs.ts", Content: theirs}, File{Path: "same.ts", Content: []byte(program.String())}, File{Path: "package.json", Content: []byte(`{"type":"module"}`)})
	if out, ok := check(t, packages, dir, "same.ts"); !ok {
		t.Errorf("tsc: %s\n%s", out, theirs)
	}
}

func TestTableLoads(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	load(t, tables(t))
}
