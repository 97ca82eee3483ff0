package stub_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

var invoice = `{"type":"object","description":"One invoice.","properties":{
	"id":{"type":"string"},"total":{"type":"number","description":"With tax."},
	"lines":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"class":{"type":"integer"}},"required":["text"]}}},
	"required":["id","total"]}`

// tools are those of most tests here.
func tools(t testing.TB) []bridge.Tool {
	get := bridge.Tool{
		Name: "get-invoice", Description: "Get one invoice.\nIt is looked up by its number.",
		Input: parse(t, `{"type":"object","properties":{
			"number":{"type":"string","description":"Like A-17."},
			"currency":{"type":"string","enum":["EUR","USD"],"default":"EUR"},
			"from":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"},"default":[]},
			"note":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}},
			"required":["number"],"additionalProperties":false}`),
		Output: parse(t, `{"type":"object","properties":{"number":{"type":"string"}},"required":["number"]}`), Source: "go",
		Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) { return bridge.Reply{Value: c.Args}, nil },
	}
	fail := bridge.Tool{
		Name: "fail", Description: "Fails as it is told.",
		Input: parse(t, `{"type":"object","properties":{"class":{"type":"string"}},"required":["class"]}`),
		Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) {
			var a struct{ Class bridge.Class }
			if err := json.Unmarshal(c.Args, &a); err != nil {
				return bridge.Reply{}, err
			}
			return bridge.Reply{}, &bridge.Error{Class: a.Class, Code: "a_code", Message: "it said \"no\" \\ twice", Details: json.RawMessage(`{"error":"x"}`)}
		},
	}
	same := echo("echo", "Gives its arguments back.", nil, nil)
	file := echo("files.read_file", "Reads.", parse(t, `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`), nil)
	file.Source = "mcp files"
	nothing := echo("nothing", "", parse(t, `{"type":"object","properties":{}}`), nil)
	return []bridge.Tool{get, fail, same, file, nothing}
}

func TestPythonCalls(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, python, "-c", `
import isolate_tools as tools
from isolate_tools import *
print(get_invoice(number="A-17"))
print(get_invoice(number="A-17", currency="USD", from_=3, tags=[], note=None))
print(echo(**{"a b": 1, "from": [None, True, 2**63, 1e308, "\0\u2028é"]}), nothing())
print(tools.files.read_file(path="x"), files_read_file(path="y"), call("echo", {"z": 1}))
for kind in ["denied", "invalid_arguments", "timeout", "limit", "failed", "closed"]:
    try:
        fail(**{"class_": kind})
    except ToolError as err:
        print(type(err).__name__, err.code, err.details, err)
try:
    call("no_such")
except ToolInvalidArguments as err:
    print(err.code)
for bad in [float("nan"), object(), "\ud800"]:
    try:
        echo(x=bad)
    except ToolInvalidArguments as err:
        print("bad", err.code)
print(tools.map(echo, [{"i": i} for i in range(20)]) == [{"i": i} for i in range(20)], tools.map(str, [1, 2]))
print(search_tools("invoice"))
sent = []
tools._bridge._send = lambda ident, tool, args: sent.append(args) or 1 / 0
for args in [{}, {"tags": []}, {"currency": "EUR"}, {"note": None}, {"note": "", "from_": 0}, {"from_": tools._bridge.unset}]:
    try:
        get_invoice(number="1", **args)
    except ZeroDivisionError:
        pass
print(sent)
print(map is __builtins__.map, "map" in dir(tools))
`)
	want := `
{'currency': 'EUR', 'note': None, 'number': 'A-17', 'tags': []}
{'currency': 'USD', 'from': 3, 'note': None, 'number': 'A-17', 'tags': []}
{'a b': 1, 'from': [None, True, 9223372036854775808, 1e+308, '\x00\u2028é']} {}
{'path': 'x'} {'path': 'y'} {'z': 1}
ToolDenied a_code {'error': 'x'} fail: it said "no" \ twice
ToolInvalidArguments a_code {'error': 'x'} fail: it said "no" \ twice
ToolTimeout a_code {'error': 'x'} fail: it said "no" \ twice
ToolLimit a_code {'error': 'x'} fail: it said "no" \ twice
ToolFailed a_code {'error': 'x'} fail: it said "no" \ twice
BridgeClosed a_code {'error': 'x'} fail: it said "no" \ twice
unknown_tool
bad invalid_arguments
bad invalid_arguments
bad invalid_arguments
True ['1', '2']
['get_invoice(*, number: str, currency: Literal["EUR", "USD"] = "EUR", from_: int = unset, note: str | None = None, tags: list[str] = []) -> GetInvoiceResult  # Get one invoice.']
[{'number': '1'}, {'number': '1', 'tags': []}, {'number': '1'}, {'number': '1'}, {'number': '1', 'from': 0, 'note': ''}, {'number': '1'}]
True True`
	compare(t, got, want)
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimSpace(want)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPythonAsync(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, python, "-c", `
import asyncio
from isolate_tools import aio

async def main():
    print(await aio.get_invoice(number="A"), await aio.files.read_file(path="p"))
    print(await asyncio.gather(*[aio.echo(i=i) for i in range(5)]))
    print(await aio.map(aio.echo, [{"i": i} for i in range(50)]) == [{"i": i} for i in range(50)])
    try:
        await aio.fail(class_="denied")
    except aio.ToolDenied as err:
        print(err.code)

asyncio.run(main())
asyncio.run(main())
`)
	once := `
{'currency': 'EUR', 'note': None, 'number': 'A', 'tags': []} {'path': 'p'}
[{'i': 0}, {'i': 1}, {'i': 2}, {'i': 3}, {'i': 4}]
True
a_code`
	compare(t, got, once+once)
}

func TestNodeCalls(t *testing.T) {
	testenv.Require(t, testenv.Node)
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	const program = `
const run = async (tools) => {
  const { get_invoice, echo, fail, call, callSync, map, searchTools, ToolError, ToolInvalidArguments } = tools;
  const say = (...v) => console.log(...v.map((x) => typeof x === 'string' ? x : JSON.stringify(x, (_, v) => typeof v === 'bigint' ? v + 'n' : v)));
  say(await get_invoice({ number: 'A-17' }), get_invoice.sync({ number: 'A', from: 3 }));
  say(await echo({ 'a b': 1, from: [null, true, 2n ** 63n + 1n, 1e308, '\0\u2028é', -7, '12345678901234567890'] }), await tools.nothing());
  say(await tools.files_read_file({ path: 'x' }), await call('echo', { z: 1 }), callSync('echo', { z: 2 }), callSync('echo'));
  for (const kind of ['denied', 'invalid_arguments', 'timeout', 'limit', 'failed', 'closed']) {
    try { await fail({ class: kind }); } catch (err) {
      say(err.name, err.code, err.details, err.message, err instanceof ToolError, err instanceof tools[err.name]);
    }
  }
  try { callSync('no_such'); } catch (err) { say(err.code, err instanceof ToolInvalidArguments); }
  for (const bad of [NaN, Infinity]) try { await echo({ x: bad }); } catch (err) { say('bad', err.code); }
  const items = Array.from({ length: 100 }, (_, i) => ({ i }));
  say(JSON.stringify(await map(echo, items)) === JSON.stringify(items));
  say(searchTools('invoice'));
};
`
	want := `
{"currency":"EUR","note":null,"number":"A-17","tags":[]} {"currency":"EUR","from":3,"note":null,"number":"A","tags":[]}
{"a b":1,"from":[null,true,"9223372036854775809n",1e+308,"\u0000` + "\u2028" + `é",-7,"12345678901234567890"]} {}
{"path":"x"} {"z":1} {"z":2} {}
ToolDenied a_code {"error":"x"} fail: it said "no" \ twice true true
ToolInvalidArguments a_code {"error":"x"} fail: it said "no" \ twice true true
ToolTimeout a_code {"error":"x"} fail: it said "no" \ twice true true
ToolLimit a_code {"error":"x"} fail: it said "no" \ twice true true
ToolFailed a_code {"error":"x"} fail: it said "no" \ twice true true
BridgeClosed a_code {"error":"x"} fail: it said "no" \ twice true true
unknown_tool true
bad invalid_arguments
bad invalid_arguments
true
["get_invoice(args: { number: string; currency?: \"EUR\" | \"USD\"; from?: number; note?: string | null; tags?: string[] }): Promise<GetInvoiceResult>  // Get one invoice."]`
	compare(t, h.output(t, "node", "-e", program+`run(require('isolate-tools'))`), want)
	compare(t, h.output(t, "node", "--input-type=module", "-e", program+`import * as tools from 'isolate-tools'; await run(tools)`), want)
}

func TestShellCalls(t *testing.T) {
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, "/bin/sh", "-c", `
tool list
tool call get-invoice '{"number":"A}"}'
echo '{"x":
[1]}' | tool call echo -
tool call nothing
for kind in denied invalid_arguments timeout limit failed closed; do
	tool call fail "{\"class\":\"$kind\"}" 2>&1; echo $?
done
tool call no_such {} 2>/dev/null; echo no such: $?
tool call 'x","y":"' {} 2>/dev/null; echo odd: $?
tool call echo '{' 2>/dev/null; echo no json: $?
ISOLATE_BRIDGE=/nowhere tool call echo 2>/dev/null; echo no bridge: $?
tool help get-invoice | head -n 8
tool help no_such 2>/dev/null; echo no page: $?
tool 2>/dev/null; echo use: $?
`)
	compare(t, got, shellWant)
}

const shellWant = `
echo	Gives its arguments back.
fail	Fails as it is told.
files.read_file	Reads.
get-invoice	Get one invoice.
nothing
{"currency":"EUR","note":null,"number":"A}","tags":[]}
{"x":[1]}
{}
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
10
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
11
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
12
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
13
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
14
tool: fail: a_code: it said "no" \ twice
tool: details: {"error":"x"}
15
no such: 11
odd: 11
no json: 11
no bridge: 15
get-invoice

Get one invoice.
It is looked up by its number.

Arguments (JSON schema):
{
  "type": "object",
no page: 11
use: 2`

// Requests are texts as far as they are short enough, in bytes, and answers
// too; where there is no place for texts, they are files.
func TestTextsAndFiles(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node)
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	for _, program := range [][]string{
		{python, "-c", `
from isolate_tools import echo
for size in (*range(4000, 4100), 10000, 100000):
    for letter in "xé":
        value = letter * (size // len(letter.encode()))
        if echo(a=value) != {"a": value}:
            print("another answer", size, letter)
print("all")`},
		{"node", "-e", `
const { echo } = require('isolate-tools');
(async () => {
  for (let size = 4000; size < 4100; size++) {
    for (const letter of ['x', 'é']) {
      const value = letter.repeat(size / Buffer.byteLength(letter));
      if ((await echo({ a: value })).a !== value || echo.sync({ a: value }).a !== value) console.log('another answer', size, letter);
    }
  }
  console.log('all');
})();`},
	} {
		if got := h.output(t, program[0], program[1:]...); got != "all" {
			t.Errorf("%s: %s", program[0], got)
		}
	}
	if err := os.Remove(filepath.Join(h.bridge, bridge.ReqDir, bridge.TextDir)); err != nil {
		t.Fatal(err) // it was left empty
	}
	for _, program := range [][]string{
		{python, "-c", `from isolate_tools import echo; print(echo(a=1)["a"])`},
		{"node", "-e", `require('isolate-tools').echo({ a: 1 }).then((e) => console.log(e.a))`},
	} {
		if got := h.output(t, program[0], program[1:]...); got != "1" {
			t.Errorf("%s without texts: %s", program[0], got)
		}
	}
}
