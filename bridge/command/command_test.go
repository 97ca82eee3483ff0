package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/internal/tracecontext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tool makes a tool of a shell script.
func tool(t *testing.T, script string, p Program) bridge.Tool {
	t.Helper()
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "script"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Path = "./script"
	if p.Env == nil {
		p.Env = BaseEnv(os.Environ())
	}
	made, err := New(bridge.Tool{Name: "t"}, p)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func call(t *testing.T, made bridge.Tool, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	reply, err := made.Run(ctx, bridge.Call{ID: "a", Seq: 1, Args: json.RawMessage(args)})
	return string(reply.Value), err
}

func TestAnswers(t *testing.T) {
	for script, want := range map[string]string{
		"cat":                             `{"a":1}`,
		`cat >/dev/null; printf ' 12 \n'`: "12",
		`echo '"no need to read"'`:        `"no need to read"`,
		`echo null; echo noise >&2`:       "null",
		`printf '{"big":9223372036854775808,"e":1e308}'`: `{"big":9223372036854775808,"e":1e308}`,
		// What goes on in the background ends with the command.
		`sleep 1000 & echo '[]'`: "[]",
		// What has left the group keeps the pipe, and no call waits for it.
		`setsid sh -c 'sleep 2' & sleep 0.2; echo '{}'`: "{}",
	} {
		begun := time.Now()
		got, err := call(t, tool(t, script, Program{}), `{"a":1}`)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", script, got, err, want)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: took %v", script, took)
		}
	}
}

// One large argument and one large result, both beyond the size of a pipe.
func TestLarge(t *testing.T) {
	args := `{"text":"` + strings.Repeat("x", 1<<20-20) + `"}`
	got, err := call(t, tool(t, "cat", Program{}), args)
	if err != nil || got != args {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(args))
	}
	got, err = call(t, tool(t, `echo '"not read"'`, Program{}), args)
	if err != nil || got != `"not read"` {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		script string
		want   bridge.Error
		detail string
	}{
		{`exit 3`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: "the command ended with exit code 3", Details: json.RawMessage(`{"exit_code":3}`)}, ""},
		{`echo 'secret /home/x' >&2; echo '{"half":'; exit 1`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: "the command ended with exit code 1", Details: json.RawMessage(`{"exit_code":1}`)}, "secret /home/x"},
		{`exit 11`, bridge.Error{Class: bridge.InvalidArguments, Code: bridge.CodeInvalid, Message: "the command ended with exit code 11", Details: json.RawMessage(`{"exit_code":11}`)}, ""},
		{`echo '{"error":{"code":"no_such_invoice","message":"no invoice 7","details":[7]}}'; exit 1`, bridge.Error{Class: bridge.Failed, Code: "no_such_invoice", Message: "no invoice 7", Details: json.RawMessage(`[7]`)}, "no invoice 7"},
		{`echo '{"error":{"code":"../x","message":"a\u001b[2Jb\u202e"}}'; exit 10`, bridge.Error{Class: bridge.Denied, Code: bridge.CodeDenied, Message: "a\uFFFD[2Jb\uFFFD", Details: json.RawMessage(`{"exit_code":10}`)}, ""},
		{`echo '{"error":{}}'; exit 13`, bridge.Error{Class: bridge.Limit, Code: "limit", Message: "the command ended with exit code 13", Details: json.RawMessage(`{"exit_code":13}`)}, ""},
		{`exit 15`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: "the command ended with exit code 15", Details: json.RawMessage(`{"exit_code":15}`)}, ""},
		{`kill -9 $$`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeFailed, Message: "the command was ended by signal: killed"}, ""},
		{`true`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeBadResult, Message: "the command gave no result: it printed nothing"}, ""},
		{`echo 1 2`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeBadResult, Message: "the command gave no result: what it printed is not one JSON value"}, `it printed "1 2\n"`},
		{`echo hello`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeBadResult, Message: "the command gave no result: what it printed is not one JSON value"}, ""},
		{`printf '"\377"'`, bridge.Error{Class: bridge.Failed, Code: bridge.CodeBadResult, Message: "the command gave no result: what it printed is not UTF-8"}, ""},
	} {
		_, err := call(t, tool(t, c.script, Program{}), "{}")
		var told *bridge.Error
		if !errors.As(err, &told) {
			t.Errorf("%s: error %v", c.script, err)
			continue
		}
		if fmt.Sprintf("%s", *told) != fmt.Sprintf("%s", c.want) {
			t.Errorf("%s: told %s, want %s", c.script, *told, c.want)
		}
		if !strings.Contains(err.Error(), c.detail) || strings.Contains(told.Message, "secret") {
			t.Errorf("%s: record %q, program %q", c.script, err, told.Message)
		}
	}
}

// A script whose interpreter is not there is refused before there is a call.
func TestInterpreterIsThere(t *testing.T) {
	for line, bad := range map[string]string{
		"#!/no/such/interpreter\n": "/no/such/interpreter", "#! /no/such\targument\n": "/no/such", "#!/bin/sh\r\n": `/bin/sh\r`,
		"#!/bin/sh\n": "", "#! /bin/sh -e\n": "", "#!": "", "": "", "#!sh\n": "",
	} {
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte(line), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := New(bridge.Tool{Name: "t"}, Program{Path: file, Dir: "/"})
		if (err != nil) != (bad != "") || err != nil && !strings.Contains(err.Error(), bad+`", which does not exist`) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// A command that cannot be started says so without a path of the host.
func TestNoSuchInterpreter(t *testing.T) {
	dir := t.TempDir()
	made := tool(t, "", Program{Dir: dir})
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := call(t, made, "{}")
	var told *bridge.Error
	if !errors.As(err, &told) || told.Message != "the command cannot be started" || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v, told %v", err, told)
	}
}

// B 66: a tool that prints without end is stopped at the limit.
func TestGreedy(t *testing.T) {
	for script, limit := range map[string]int64{"exec yes": 1 << 20, "cat /dev/zero": 0, "yes >&2 & yes": 1 << 20} {
		_, err := call(t, tool(t, script, Program{OutputBytes: limit}), "{}")
		var told *bridge.Error
		if !errors.As(err, &told) || told.Code != bridge.CodeResultTooLarge {
			t.Errorf("%s: error %v", script, err)
		}
		if len(err.Error()) > 2*stderrBytes {
			t.Errorf("%s: a record of %d bytes", script, len(err.Error()))
		}
	}
	// Standard error alone is drained and does not count.
	got, err := call(t, tool(t, `head -c 20000000 /dev/zero >&2; echo 1`, Program{OutputBytes: 10}), "{}")
	if err != nil || got != "1" {
		t.Errorf("got %q, %v", got, err)
	}
}

// B 66, C 13: a tool that hangs, ignores signals and forks ends as a whole
// when its time is over.
func TestHanging(t *testing.T) {
	dir := t.TempDir()
	made := tool(t, `trap '' TERM INT HUP
for i in 1 2 3; do sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 1; done' & done
while [ "$(wc -l <pids)" -lt 3 ]; do sleep 0.05; done
echo ready >>pids
while :; do sleep 1; done`, Program{Dir: dir})
	if err := os.WriteFile(filepath.Join(dir, "pids"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if b, _ := os.ReadFile(filepath.Join(dir, "pids")); strings.Contains(string(b), "ready") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
	}()
	_, err := made.Run(ctx, bridge.Call{Args: json.RawMessage("{}")})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(line); err == nil {
			gone(t, pid)
		}
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for range 6000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// Environment, working directory, arguments and descriptors are what was said.
func TestSurroundings(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	t.Setenv("SECRET", "do not tell")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := `python3 -c '
import json, os, sys
print(json.dumps([sorted(os.environ), os.getcwd(), sys.argv[1:], sorted(map(int, os.listdir("/proc/self/fd")))[:3], os.getpgrp() == os.getsid(0)]))' "$@"`
	made := tool(t, script, Program{Dir: dir, Args: []string{"a b", "$(id)"}, Env: []string{"PATH=/usr/bin:/bin", "EXTRA=1", "LC_ALL=C.UTF-8"}})
	got, err := call(t, made, "{}")
	want := fmt.Sprintf(`[["EXTRA", "LC_ALL", "PATH", "PWD"], %q, ["a b", "$(id)"], [0, 1, 2], true]`, dir)
	if err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// A command learns where in a trace its call is, unless its author says so.
func TestTraced(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := tracecontext.With(t.Context(), tracecontext.Parse(parent, "a=1"))
	for want, env := range map[string][]string{
		`"` + parent + ` a=1"`: {"PATH=/usr/bin:/bin"},
		`"mine "`:              {"PATH=/usr/bin:/bin", "TRACEPARENT=mine"},
	} {
		made := tool(t, `printf '"%s %s"' "$TRACEPARENT" "$TRACESTATE"`, Program{Env: env})
		reply, err := made.Run(ctx, bridge.Call{ID: "a", Seq: 1, Args: json.RawMessage("{}")})
		if err != nil || string(reply.Value) != want {
			t.Errorf("%s, %v, want %s", reply.Value, err, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for path, want := range map[string]string{"./absent": "no such file", "absent": "write a path with a slash"} {
		if _, err := New(bridge.Tool{Name: "t"}, Program{Path: path, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	if _, err := New(bridge.Tool{Name: "t"}, Program{Path: "/bin/true", Dir: "."}); err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("error %v", err)
	}
}

func TestWithSchema(t *testing.T) {
	full := `{"description":"Reads.","input":{"type":"object","properties":{"id":{"type":"integer"}}},"output":{"type":"string"},"read_only":true}`
	got, err := WithSchema(bridge.Tool{Name: "t"}, "s.json", []byte(full))
	if err != nil || got.Description != "Reads." || got.Input.Properties["id"].Type != "integer" || got.Output.Type != "string" || got.Effect != bridge.ReadOnly {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err = WithSchema(bridge.Tool{Name: "t", Description: "Mine."}, "s.json", []byte(`{"type":"object","description":"D","properties":{"input":{}}}`))
	if err != nil || got.Description != "Mine." || got.Input.Properties["input"] == nil || got.Output != nil || got.Effect != bridge.MayWrite {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", "null", `{"input":1}`, `{"input":{},"inptu":{}}`, `{"input":{}} {}`, `{"type":7}`, strings.Repeat(" ", MaxSchemaBytes+1)} {
		if _, err := WithSchema(bridge.Tool{Name: "t"}, "s.json", []byte(bad)); err == nil || !strings.Contains(err.Error(), `cannot read schema "s.json" of tool "t"`) {
			t.Errorf("%.20q: error %v", bad, err)
		}
	}
}

// However a tool is described, its arguments are checked as was meant.
func TestForms(t *testing.T) {
	const in = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`
	for _, text := range []string{
		in,
		`{"input":` + in + `,"description":"D."}`,
		`{"name":"w","title":"W","description":"D.","inputSchema":` + in + `,"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"x"}}`,
		`{"name":"w","description":"D.","input_schema":` + in + `}`,
		`{"type":"function","function":{"name":"w","description":"D.","parameters":` + in + `,"strict":true}}`,
		`{"type":"function","name":"w","description":"D.","parameters":` + in + `,"strict":true}`,
		`{"name":"w","description":"D.","parameters":` + in + `}`,
	} {
		got, err := WithSchema(bridge.Tool{Name: "t"}, "s.json", []byte(text))
		if err != nil || got.Input == nil || len(got.Input.Required) != 1 || text != in && got.Description != "D." {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if mcp := strings.Contains(text, "readOnlyHint"); (got.Effect == bridge.ReadOnly) != mcp || (got.Output != nil) != mcp {
			t.Errorf("%s: effect %v, output %v", text, got.Effect, got.Output)
		}
	}
}

// What would mean "no check" is refused, with what was perhaps meant.
func TestMisspeltSchema(t *testing.T) {
	for text, want := range map[string]string{
		`{"inputs":{"type":"object"}}`:                                 `unknown keyword "inputs"; did you mean "input"?`,
		`{"name":"w","description":"D"}`:                               `unknown keyword "name"`,
		`{"city":{"type":"string"}}`:                                   `unknown keyword "city"; the arguments are described under "properties"`,
		`{"input":{"require":["a"]}}`:                                  `unknown keyword "require" in input; did you mean "required"?`,
		`{"type":"object","aditionalProperties":false}`:                `unknown keyword "aditionalProperties"; did you mean "additionalProperties"?`,
		`{"input":{"properties":{"a":{"type":"strng"}}}}`:              `unknown type "strng" in input.properties.a; did you mean "string"?`,
		`{"input":{"properties":{"a":{"type":["null","text"]}}}}`:      `unknown type "text" in input.properties.a; the types are`,
		`{"input":{"properties":{"a":{"anyOf":[{},{"minimun":1}]}}}}`:  `unknown keyword "minimun" in input.properties.a.anyOf[1]; did you mean "minimum"?`,
		`{"input":{"items":{"$defs":{"d":{"lenght":1}}}}}`:             `unknown keyword "lenght" in input.items.$defs.d`,
		`{"input":{},"outputs":{}}`:                                    `unknown key "outputs"; did you mean "output"?`,
		`{"input_schema":{},"descripton":"x"}`:                         `unknown key "descripton"; did you mean "description"?`,
		`{"type":"function","function":{"parameter":{}}}`:              `unknown key "parameter"; did you mean "parameters"?`,
		`{"type":"function","function":7}`:                             `its "function" is no object`,
		`{"input":{},"read_only":"yes"}`:                               `its "read_only" cannot be read`,
		"{\n\"input\": {\n}":                                           `line 3: it is not JSON: unexpected end`,
		"{\n\"a\": 1,\n\n}":                                            `line 4: it is not JSON: invalid character '}'`,
		`[]`:                                                           `it is no JSON object`,
		`{"input":{"type":"object"},"input":{}}`:                       `the name "input" stands twice in one object`,
		`{"properties":{"a":{"type":"string","type":"null"}}}`:         `the name "type" stands twice in one object`,
		`{"input":null}`:                                               `there is no schema in input, but "null"`,
		`{"input":{"properties":["a"]}}`:                               `there is no object in input.properties`,
		`{"input":{"require":1,"propertys":{},"type":"obj","minn":2}}`: `"propertys" in input; did you mean "properties"?; unknown keyword "require"`,
	} {
		got, err := WithSchema(bridge.Tool{Name: "t"}, "s.json", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
		if got.Input != nil || got.Output != nil {
			t.Errorf("%s: a refused schema was used", text)
		}
	}
	for _, text := range []string{
		`{"properties":{"require":{"type":"string","x-unit":"m"},"type":{"enum":["strng"]}},"default":{"anything":{"goes":1}},"dependencies":{"a":["b"]},"additionalProperties":false}`,
		`{"input":true}`, `{}`,
	} {
		if _, err := WithSchema(bridge.Tool{Name: "t"}, "s.json", []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseFlag(t *testing.T) {
	for text, want := range map[string]Flag{
		"a=./b":                 {"a", "./b", ""},
		"a=/x=y":                {"a", "/x=y", ""},
		"a=./b,schema=./s.json": {"a", "./b", "./s.json"},
	} {
		if got, err := ParseFlag(text); err != nil || got != want {
			t.Errorf("ParseFlag(%q) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "=b", "a=", "a=b,schema="} {
		if got, err := ParseFlag(text); err == nil {
			t.Errorf("ParseFlag(%q) = %+v", text, got)
		}
	}
}

// The example in docs/tools.md does what the table below it says.
func TestDocsExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, ok := strings.Cut(string(text), "```sh\n#!/bin/sh\n")
	script, _, end := strings.Cut(script, "```")
	if !ok || !end {
		t.Fatal("docs/tools.md has no script")
	}
	made := tool(t, script, Program{})
	if got, err := call(t, made, `{"id":7}`); err != nil || got != `{"id": 7, "total": 650}` {
		t.Errorf("got %s, %v", got, err)
	}
	var told *bridge.Error
	if _, err := call(t, made, `{"id":8}`); !errors.As(err, &told) || told.Class != bridge.Failed || told.Code != "no_such_invoice" {
		t.Errorf("error %v", err)
	}
}

func TestCodes(t *testing.T) {
	for text, want := range map[string]bool{"a": true, "no_such_2": true, strings.Repeat("x", 64): true, "": false, "_a": false, "2a": false, "A": false, "a-b": false, "a\n": false, strings.Repeat("x", 65): false} {
		if codeForm().MatchString(text) != want {
			t.Errorf("%q as a code: %v", text, !want)
		}
	}
}

// B 66, through the broker: whatever one tool does, the others go on.
func TestThroughTheBroker(t *testing.T) {
	bad := map[string]struct{ script, want string }{
		"hangs":    {"sleep 1000", "timeout timeout"},
		"forks":    {"for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; sleep 1000", "timeout timeout"},
		"floods":   {"exec yes", "failed result_too_large"},
		"garbles":  {`printf '{"a":"\\377"}'`, "failed bad_result"},
		"repeats":  {`echo '{"a":1,"a":2}'`, "failed bad_result"},
		"nests":    {`head -c 100000 /dev/zero | tr '\\0' '['`, "failed bad_result"},
		"denies":   {"exit 10", "denied denied"},
		"vanishes": {`rm "$0"; kill -9 $$`, "failed tool_failed"},
	}
	tools := []bridge.Tool{tool(t, "cat", Program{})}
	for name, b := range bad {
		made := tool(t, b.script, Program{OutputBytes: 1 << 20})
		made.Name, made.Timeout = name, 30*time.Second
		if b.want == "timeout timeout" {
			made.Timeout = 300 * time.Millisecond
		}
		tools = append(tools, made)
	}
	set, err := bridge.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	b := bridge.NewBroker(set, bridge.Options{Parallel: 9})
	defer b.Close()
	for name, want := range bad {
		a := b.Do(t.Context(), bridge.Request{ID: name, Tool: name, Args: json.RawMessage("{}"), Via: bridge.ViaFile})
		got := "ok"
		if a.Err != nil {
			got = string(a.Err.Class) + " " + string(a.Err.Code)
		}
		if got != want.want {
			t.Errorf("%s: got %s (%v), want %s", name, got, a.Err, want.want)
		}
		good := b.Do(t.Context(), bridge.Request{ID: "after-" + name, Tool: "t", Args: json.RawMessage(`{"n":1}`), Via: bridge.ViaFile})
		if string(good.Value) != `{"n":1}` {
			t.Errorf("after %s: %+v", name, good)
		}
	}
}
