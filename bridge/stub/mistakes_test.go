package stub_test

import (
	"strings"
	"testing"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

// What a model gets wrong is told in words it can act on, in Python.
func TestPythonMistakes(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, python, "-c", `
import asyncio, traceback
import isolate_tools
from isolate_tools import *
from isolate_tools import aio
def attempt(f):
    try:
        f()
    except Exception as err:
        assert err.__context__ is None or err.__suppress_context__, "two traces are shown"
        sdk = [frame.name for frame in traceback.extract_tb(err.__traceback__) if "isolate_tools" in frame.filename]
        print(type(err).__name__, len(sdk), err)
def wrong_import():
    from isolate_tools import get_invoce
def far_import():
    from isolate_tools import weather
attempt(lambda: get_invoice({"number": "A"}))
attempt(lambda: get_invoice(nummer="A"))
attempt(lambda: get_invoice(number=1))
attempt(lambda: fail(class_="denied"))
attempt(lambda: asyncio.run(aio.fail(class_="denied")))
attempt(lambda: asyncio.run(aio.get_invoice("A")))
attempt(lambda: call("fail", {"class": "denied"}))
attempt(lambda: call("get-invoce", {}))
attempt(lambda: call("get-invoice", "A"))
attempt(wrong_import)
attempt(far_import)
attempt(lambda: isolate_tools.get_invoce)
print(hasattr(isolate_tools, "no_such"), isolate_tools.get_invoice is get_invoice, get_invoice.__doc__[:16])
`)
	line := `get_invoice(*, number: str, currency: Literal["EUR", "USD"] = "EUR", from_: int = unset, note: str | None = None, tags: list[str] = []) -> GetInvoiceResult  # Get one invoice.`
	for _, want := range []string{
		`TypeError 1 arguments are given by name only: ` + line,
		`nummer'`,
		`ToolInvalidArguments 1 get-invoice: argument "number" must be a string, not an integer`,
		`ToolDenied 1 fail: it said "no" \ twice`,
		`ToolDenied 1 fail: it said "no" \ twice`,
		`TypeError 1 arguments are given by name only: ` + line,
		`ToolDenied 1 fail: it said "no" \ twice`,
		`ToolInvalidArguments 1 unknown tool: "get-invoce"; did you mean "get-invoice"?`,
		`ToolInvalidArguments 1 get-invoice: the arguments are a dict of their names and values, not a str`,
		`ImportError 1 there is no tool 'get_invoce'; did you mean 'get_invoice'?`,
		`ImportError 1 there is no tool 'weather'; search_tools() lists them`,
		`AttributeError 1 there is no tool 'get_invoce'; did you mean 'get_invoice'?`,
		`False True Get one invoice.`,
	} {
		first, rest, _ := strings.Cut(got, "\n")
		if !strings.Contains(first, want) || strings.Contains(first, "nummer") && !strings.HasSuffix(first, line) {
			t.Errorf("got  %s\nwant %s", first, want)
		}
		got = rest
	}
}

// The same in JavaScript.
func TestNodeMistakes(t *testing.T) {
	testenv.Require(t, testenv.Tool("node"))
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, "node", "-e", `
const tools = require('isolate-tools');
const attempt = async (f) => { try { await f(); } catch (err) { console.log(err.name, err.message); } };
(async () => {
  await attempt(() => tools.get_invoice('A'));
  await attempt(() => tools.get_invoice.sync(['A']));
  await attempt(() => tools.call('get-invoce', {}));
})();
`)
	line := `get_invoice(args: { number: string; currency?: "EUR" | "USD"; from?: number; note?: string | null; tags?: string[] }): Promise<GetInvoiceResult>  // Get one invoice.`
	compare(t, got, `ToolInvalidArguments get-invoice: the arguments are one object, not a string: `+line+`
ToolInvalidArguments get-invoice: the arguments are one object, not an array: `+line+`
ToolInvalidArguments unknown tool: "get-invoce"; did you mean "get-invoice"?`)
}

// And in the shell, where the place of a fault is that in the arguments.
func TestShellMistakes(t *testing.T) {
	h := serve(t, bridge.Options{MaxCalls: bridge.NoLimit}, tools(t)...)
	got := h.output(t, "/bin/sh", "-c", `
tool call echo 'city=Rome' 2>&1; echo $?
tool call get-invoice '{"number": x}' 2>&1
tool call echo '"Rome"' 2>&1; true
`)
	const form = `the arguments are not one JSON object like {"name": "value"}`
	compare(t, got, `tool: echo: bad_json: `+form+`: no value at byte 0 of them; see: tool help echo
11
tool: get-invoice: bad_json: `+form+`: no value at byte 11 of them; see: tool help get-invoice
tool: echo: bad_request: `+form+`; see: tool help echo`)
}
