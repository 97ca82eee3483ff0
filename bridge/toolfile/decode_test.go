package toolfile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/mcp"
	"github.com/isolate-run/isolate/policy"
)

const full = `
[tool.get_invoice]
command = "./get_invoice.py"
args = ["--all", ""]
dir = "tools"
description = "Reads one."
schema = "get_invoice.json"
env = { API_KEY = "${API_KEY}", PRICE = "$$5" }
approve = "writes"
read_only = true
timeout = "10s"
max_calls = 1_0

[tool."a/b.c"]
command = "x"

[mcp.files]
command = "npx"
args = ["-y", "server"]
allow = ["read_*"]
deny = ["read_secret"]
approve = "ask"
read_only = false
timeout = "1m"
max_calls = 3
[mcp.files.env]
HOME = "/srv"

[mcp.web]
url = "https://tools.example/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }

[mcp.local]
socket = "run/x.sock"

[limits]
max_calls = 5
parallel = 2
max_pending = 6
timeout = "7s"
request_bytes = "8K"
response_bytes = "9K"
total_request_bytes = "10K"
total_response_bytes = "11K"

[approve]
ask = "webhook"
url = "https://a.example/"
secret = "${S}"
wait = "12s"
`

func TestDecode(t *testing.T) {
	got, err := Decode("tools.toml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	readOnly := bridge.ReadOnly
	want := File{
		Tools: []Tool{
			{Name: "a/b.c", Command: "x"},
			{Name: "get_invoice", Command: "./get_invoice.py", Args: []string{"--all", ""}, Dir: "tools", Description: "Reads one.", Schema: "get_invoice.json",
				Env: map[string]string{"API_KEY": "${API_KEY}", "PRICE": "$$5"}, Approve: bridge.ApproveWrites, Effect: &readOnly, Timeout: 10 * time.Second, MaxCalls: 10},
		},
		Servers: []Server{
			{Name: "files", Command: "npx", Args: []string{"-y", "server"}, Env: map[string]string{"HOME": "/srv"}, Allow: []string{"read_*"}, Deny: []string{"read_secret"},
				Approve: bridge.ApproveAsk, Effects: mcp.AllMayWrite, Timeout: time.Minute, MaxCalls: 3},
			{Name: "local", Socket: "run/x.sock"},
			{Name: "web", URL: "https://tools.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
		},
		Limits:  Limits{5, 2, 6, 7 * time.Second, 8 << 10, 9 << 10, 10 << 10, 11 << 10},
		Approve: Approve{Ask: AskWebhook, URL: "https://a.example/", Secret: "${S}", Wait: 12 * time.Second},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	options := bridge.Options{MaxCalls: 5, Parallel: 2, MaxPending: 6, Timeout: 7 * time.Second, RequestBytes: 8 << 10, ResponseBytes: 9 << 10, TotalRequestBytes: 10 << 10, TotalResponseBytes: 11 << 10, ApprovalWait: 12 * time.Second}
	if o := got.Options(); !reflect.DeepEqual(o, options) {
		t.Errorf("options %+v", o)
	}
}

// Dotted keys and inline tables are the same as tables.
func TestForms(t *testing.T) {
	want, err := Decode("a", []byte("[tool.x]\ncommand = 'c'\nenv = { A = '1', B = '2' }\n[limits]\nparallel = 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{
		"tool.x.command = 'c'\ntool.x.env.A = '1'\ntool.x.env.B = '2'\nlimits.parallel = 3",
		"tool = { x = { command = 'c', env = { A = '1', B = '2' } } }\nlimits = { parallel = 3 }",
		"[tool]\nx.command = 'c'\n[tool.x.env]\nA = '1'\n'B' = \"2\"\n[limits]\nparallel = 0x3",
	} {
		if got, err := Decode("b", []byte(form)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngave %+v, %v", form, got, err)
		}
	}
	if got, err := Decode("c", nil); err != nil || !reflect.DeepEqual(got, File{}) {
		t.Errorf("an empty file gave %+v, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	for file, want := range map[string]string{
		"[tools.x]\ncommand = 'c'":                                 `line 1, column 2: cannot use key "tools": there is no such table or setting; did you mean [tool.NAME]?`,
		"parallel = 1":                                             `line 1, column 1: cannot use key "parallel": there is no such table or setting; write [tool.NAME], [mcp.NAME], [limits] or [approve]`,
		"[tool.x]\ncomand = 'c'\ncommand = 'c'":                    `line 2, column 1: cannot use key "comand": [tool.x] has no setting of that name; did you mean "command"?`,
		"[limits]\nfoo = 1":                                        `line 2, column 1: cannot use key "foo": [limits] has no setting of that name; the settings of this table are max_calls, parallel, `,
		"[tool.x]\n":                                               `line 1, column 7: cannot use [tool.x]: it has no command; write command = "./x"`,
		"[tool.x]\ncommand = 7":                                    `line 2, column 11: cannot read "tool.x.command": it is a whole number, not a string; write command = "./get_invoice.py"`,
		"[tool.x]\ncommand = ''":                                   `line 2, column 11: cannot read command "": it is empty; leave it out for the default`,
		"[tool.x]\ncommand = 'c'\nargs = ['a', 1]":                 `line 3, column 14: cannot read "tool.x.args": it is a whole number, not a string`,
		"[tool.x]\ncommand = 'c'\ntimeout = '5'":                   `line 3, column 11: cannot read duration "5": it has no unit`,
		"[tool.x]\ncommand = 'c'\nmax_calls = 0":                   `line 3, column 13: cannot read max_calls "0": it is not 1 to 1000000000; write max_calls = 10`,
		"[tool.x]\ncommand = 'c'\nmax_calls = -1":                  `it is not 1 to`,
		"[tool.x]\ncommand = 'c'\nmax_calls = 99999999999999999":   `it is not 1 to`,
		"[tool.x]\ncommand = 'c'\napprove = 'write'":               `line 3, column 11: cannot read approval "write": there is no such choice; did you mean "writes"?`,
		"[tool.x]\ncommand = 'c'\nread_only = 'yes'":               `it is a string, not true or false`,
		"[tool.x]\ncommand = 'c'\ncommand = 'd'":                   `line 3, column 1: cannot set "tool.x.command" twice: it is set in line 2 already`,
		"[tool.x]\ncommand = 'c'\nenv = 'A=1'":                     `line 3, column 7: cannot read "tool.x.env": it is a string, not a table of strings`,
		"[tool.x]\ncommand = 'c'\nenv = { A = 1 }":                 `cannot read "tool.x.env.A": it is a whole number, not a string; write the value in quotes`,
		"[tool.x]\ncommand = 'c'\nenv = { 'A B' = '1' }":           `line 3, column 9: cannot read variable "A B": its name is not letters`,
		"[tool.x]\ncommand = 'c'\nenv = { A = '$B' }":              `line 3, column 9: cannot read value of "A": it has a $ that is neither ${NAME} nor $$`,
		"[tool.x]\ncommand = 'c'\nenv = { A = '${' }":              `after ${ there is no name and }`,
		"[tool.x]\ncommand = 'c'\nenv = { A = '${B C}' }":          `after ${ there is no name and }`,
		"[tool.x]\ncommand = 'c'\n[tool.x.env]\nA.B = '1'":         `env is a table of strings`,
		"[tool.x.command]\na = 1":                                  `line 1, column 9: cannot read "tool.x.command": command is a string`,
		"[tool.'../x']\ncommand = 'c'":                             "",
		"[tool.'a b']\ncommand = 'c'":                              `line 1, column 7: tool name "a b" may hold`,
		"[mcp.'a.b']\nsocket = 's'":                                `line 1, column 6: cannot use server name "a.b"`,
		"[[tool.x]]\ncommand = 'c'":                                `line 1, column 3: cannot read [[tool.x]]: nothing in this file is a list of tables; write [tool.NAME]`,
		"tool = 'x'":                                               `line 1, column 8: cannot read "tool": it is a string, not a table; write [tool.NAME]`,
		"[tool]\nx = 'c'":                                          `line 2, column 5: cannot read "tool.x": it is a string, not a table`,
		"limits = 1":                                               `it is a whole number, not a table; write [limits]`,
		"[mcp.a]\n":                                                `line 1, column 6: cannot use [mcp.a]: it has 0 of command, socket and url; give it one of them`,
		"[mcp.a]\ncommand = 'c'\nurl = 'https://x/'":               `it has 2 of command, socket and url`,
		"[mcp.a]\nsocket = 's'\nargs = ['x']":                      `line 3, column 1: cannot use [mcp.a]: args is for a command; remove it`,
		"[mcp.a]\nsocket = 's'\nheaders = { A = 'b' }":             `headers are for a url`,
		"[mcp.a]\nurl = 'https://x/'\nheaders = { 'A:' = 'b' }":    `cannot read header "A:": its name has a character`,
		"[mcp.a]\nurl = 'https://x/'\nheaders = { A = \"b\\nc\" }": `cannot read header "A": its value has a control character`,
		"[mcp.a]\nsocket = 's'\nallow = ['[']":                     `allow has the pattern "[", which is none`,
		"[mcp.a]\nsocket = 's'\n[tool.'a.b']\ncommand = 'c'":       `cannot use [tool.a.b]: names that begin with "a." are those of [mcp.a]`,
		"[approve]\nask = 'webhook'":                               `line 2, column 1: cannot use [approve]: ask = "webhook" needs url`,
		"[approve]\nask = 'somebody'":                              `cannot read who is asked "somebody": there is no such choice`,
		"[approve]\nask = 'terminal'\nsecret = 'x'":                `line 3, column 1: cannot use [approve]: secret is set, and ask is "terminal"; remove one of them`,
		"[approve]\ncommand = './x'":                               `command is set, and ask is ""`,
		"[limits]\ntimeout = '0s'":                                 `cannot read duration "0s"`,
		"[limits]\nrequest_bytes = '5'":                            `cannot read size "5"`,
		"[limits]\n[limits]\n":                                     `cannot read the file as TOML`,
		"[limits]\nparallel = \n":                                  `cannot read the file as TOML`,
		"[limits]\nparallel = 1979-05-27":                          `it is a date, not a whole number`,
		strings.Repeat("#", MaxFileSize+1):                         `cannot read the file: it has more than 1M`,
		strings.Repeat("[limits]\n", maxEntries+1):                 `cannot read the file: it has more than 4096 keys`,
		"a" + strings.Repeat(".a", maxKeyParts) + " = 1":           `it has more than 16 parts`,
	} {
		_, err := Decode("tools.toml", []byte(file))
		var refused *DecodeError
		if want == "" {
			if err != nil && !strings.Contains(err.Error(), "name") {
				t.Errorf("%.60q: error %v", file, err)
			}
			continue
		}
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q:\n%v\nwant %s", file, err, want)
		}
	}
}

// All problems are told at once, in the order of the file, each once.
func TestAllProblems(t *testing.T) {
	_, err := Decode("tools.toml", []byte("[tool.x]\ncommand = 7\ntimeout = '5'\n[mcp.a]\nsockt = 's'\n[limits]\nparallel = 0\n"))
	want := `cannot use tools file "tools.toml":
  line 2, column 11: cannot read "tool.x.command": it is a whole number, not a string; write command = "./get_invoice.py"
  line 3, column 11: cannot read duration "5": it has no unit; write "5s" or "5ms"
  line 4, column 6: cannot use [mcp.a]: it has 0 of command, socket and url; give it one of them
  line 5, column 1: cannot use key "sockt": [mcp.a] has no setting of that name; did you mean "socket"?
  line 7, column 12: cannot read parallel "0": it is not 1 to 1000000000; write parallel = 4`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A hint that says "write …" is itself right.
func TestExamplesDecode(t *testing.T) {
	before := map[string]string{
		"tool": "[tool.x]\n", "mcp": "[mcp.x]\n", "limits": "[limits]\n", "approve": "[approve]\n",
	}
	for section, keys := range map[string][]key{"tool": toolKeys(&Tool{}), "mcp": serverKeys(&Server{}), "limits": limitKeys(&Limits{}), "approve": approveKeys(&Approve{})} {
		for _, k := range keys {
			_, err := Decode("x", []byte(before[section]+k.example+"\n"))
			var refused *DecodeError
			if errors.As(err, &refused) {
				for _, p := range refused.Problems {
					if !strings.HasPrefix(p.What, "cannot use [") { // what is missing beside it
						t.Errorf("%s %s: %v", section, k.name, err)
					}
				}
			}
		}
	}
}

const docsFile = "../../docs/tools.md"

// The reference has a row for each setting, in order, and no other; and every
// example in it decodes.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		keys := map[string][]key{"tool": toolKeys(&Tool{}), "mcp": serverKeys(&Server{}), "limits": limitKeys(&Limits{}), "approve": approveKeys(&Approve{})}[section]
		var want, got []string
		for _, k := range keys {
			want = append(want, k.name)
		}
		_, part, ok := strings.Cut(string(text), "\n### `"+sectionExamples[section]+"`")
		if !ok {
			t.Fatalf("%s has no section on %s", docsFile, sectionExamples[section])
		}
		part, _, _ = strings.Cut(part, "\n#")
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(part, -1) {
			got = append(got, row[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has for %s the settings\n%q, the decoder\n%q", docsFile, section, got, want)
		}
	}
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Error("there is no example")
	}
	for _, b := range blocks {
		if _, err := Decode(docsFile, []byte(b[1])); err != nil {
			t.Errorf("%v\nin\n%s", err, b[1])
		}
	}
	for _, o := range []struct {
		what string
		is   any
	}{
		{"| `max_calls` | whole number | 50 |", bridge.DefaultMaxCalls}, {"| `parallel` | whole number | 4 |", bridge.DefaultParallel},
		{"| `max_pending` | whole number | 64 |", bridge.DefaultMaxPending}, {"| `timeout` | duration | 60s |", int(bridge.DefaultTimeout / time.Second)},
		{"| `request_bytes` | size | 1MiB |", bridge.DefaultRequestBytes >> 20}, {"| `response_bytes` | size | 4MiB |", bridge.DefaultResponseBytes >> 20},
		{"| `total_request_bytes` | size | 64MiB |", bridge.DefaultTotalRequestBytes >> 20}, {"| `total_response_bytes` | size | 256MiB |", bridge.DefaultTotalResponseBytes >> 20},
		{"| `wait` | duration | 300s |", int(bridge.DefaultApprovalWait / time.Second)},
	} {
		if !strings.Contains(string(text), o.what) || !strings.Contains(o.what, " "+fmt.Sprint(o.is)) {
			t.Errorf("%s does not say %q, and the default is %v", docsFile, o.what, o.is)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{"", full, "[tool.x]\ncommand = 7", "tool = { x = { env = { A = {} } } }", "[mcp.a.headers]\nA = '${B}'", "limits.parallel.x = 1", "[[tool]]", "[tool.x.env.y]\n", "tool.x = []", "a = '", "[approve]\nask = 'webhook'\n", "\xef\xbb\xbf"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Decode("fuzz", data)
		if err == nil {
			for _, tool := range file.Tools {
				if tool.Command == "" || bridge.CheckName(tool.Name) != nil {
					t.Fatalf("decoded %+v", tool)
				}
			}
			return
		}
		var refused *DecodeError
		if !errors.As(err, &refused) || len(refused.Problems) == 0 || !reflect.DeepEqual(file, File{}) {
			t.Fatalf("Decode = %+v, %v", file, err)
		}
		lines := strings.Count(string(data), "\n") + 1
		before := policy.Problem{}
		for _, p := range refused.Problems {
			if p.What == "" || p.Hint == "" || len(p.Error()) > 2048 {
				t.Fatalf("problem %+v", p)
			}
			if p.Line > lines || p.Line > 0 && (p.Column < 1 || p.Line < before.Line) {
				t.Fatalf("problem %+v after %+v", p, before)
			}
			before = p
		}
	})
}
