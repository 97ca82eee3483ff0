package toolfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/mcp"
	"github.com/isolate-run/isolate/policy"
)

// key is one setting of a table.
type key struct {
	name string
	// takes says what the value is, for the sentence "it is …, not …".
	takes string
	// example is a line to write in its place.
	example string
	kind    unstable.Kind
	// set reads a value of that kind. The error is a policy.Problem.
	set func(v value) error
	// entry reads one variable of a table of strings; kind is InlineTable.
	entry func(name, text string) error
}

// value is a value of the file, copied out of the parser.
type value struct {
	kind   unstable.Kind
	text   string
	items  []string // of a list
	offset int
}

func toolKeys(t *Tool) []key {
	return []key{
		textKey("command", `command = "./get_invoice.py"`, &t.Command),
		listKey("args", `args = ["--verbose"]`, &t.Args),
		textKey("dir", `dir = "tools"`, &t.Dir),
		textKey("description", `description = "Reads one invoice."`, &t.Description),
		textKey("schema", `schema = "get_invoice.json"`, &t.Schema),
		tableKey("env", `env = { API_KEY = "${API_KEY}" }`, &t.Env, checkVariable),
		approvalKey(&t.Approve),
		boolKey("read_only", "read_only = true", func(yes bool) {
			effect := bridge.MayWrite
			if yes {
				effect = bridge.ReadOnly
			}
			t.Effect = &effect
		}),
		durationKey("timeout", `timeout = "10s"`, &t.Timeout),
		countKey("max_calls", "max_calls = 10", &t.MaxCalls),
	}
}

func serverKeys(s *Server) []key {
	return []key{
		textKey("command", `command = "npx"`, &s.Command),
		textKey("socket", `socket = "/run/user/1000/files.sock"`, &s.Socket),
		textKey("url", `url = "https://tools.example/mcp"`, &s.URL),
		listKey("args", `args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv/data"]`, &s.Args),
		textKey("dir", `dir = "tools"`, &s.Dir),
		tableKey("env", `env = { API_KEY = "${API_KEY}" }`, &s.Env, checkVariable),
		tableKey("headers", `headers = { Authorization = "Bearer ${TOKEN}" }`, &s.Headers, checkHeader),
		listKey("allow", `allow = ["read_*"]`, &s.Allow),
		listKey("deny", `deny = ["delete_*"]`, &s.Deny),
		approvalKey(&s.Approve),
		boolKey("read_only", "read_only = true", func(yes bool) {
			s.Effects = mcp.AllMayWrite
			if yes {
				s.Effects = mcp.AllReadOnly
			}
		}),
		durationKey("timeout", `timeout = "30s"`, &s.Timeout),
		countKey("max_calls", "max_calls = 10", &s.MaxCalls),
	}
}

func limitKeys(l *Limits) []key {
	return []key{
		countKey("max_calls", "max_calls = 50", &l.MaxCalls),
		countKey("parallel", "parallel = 4", &l.Parallel),
		countKey("max_pending", "max_pending = 64", &l.MaxPending),
		durationKey("timeout", `timeout = "60s"`, &l.Timeout),
		sizeKey("request_bytes", `request_bytes = "1MiB"`, &l.RequestBytes),
		sizeKey("response_bytes", `response_bytes = "4MiB"`, &l.ResponseBytes),
		sizeKey("total_request_bytes", `total_request_bytes = "64MiB"`, &l.TotalRequestBytes),
		sizeKey("total_response_bytes", `total_response_bytes = "256MiB"`, &l.TotalResponseBytes),
	}
}

func approveKeys(a *Approve) []key {
	return []key{
		{name: "ask", takes: "a name in quotes", example: `ask = "terminal"`, kind: unstable.String, set: func(v value) error { return a.Ask.UnmarshalText([]byte(v.text)) }},
		textKey("command", `command = "./may-it"`, &a.Command),
		listKey("args", `args = ["--quiet"]`, &a.Args),
		textKey("dir", `dir = "tools"`, &a.Dir),
		tableKey("env", `env = { DISPLAY = "${DISPLAY}" }`, &a.Env, checkVariable),
		textKey("url", `url = "https://approvals.example/ask"`, &a.URL),
		textKey("secret", `secret = "${WEBHOOK_SECRET}"`, &a.Secret),
		durationKey("wait", `wait = "300s"`, &a.Wait),
	}
}

// sections are the tables of a file and what they look like.
var sections = []string{"tool", "mcp", "limits", "approve"}

var sectionExamples = map[string]string{"tool": "[tool.NAME]", "mcp": "[mcp.NAME]", "limits": "[limits]", "approve": "[approve]"}

func refuse(noun, text, cause, hint string) policy.Problem {
	return policy.Problem{What: fmt.Sprintf("cannot read %s %s: %s", noun, quote(text), cause), Hint: hint}
}

func textKey(name, example string, to *string) key {
	return key{name: name, takes: "a string", example: example, kind: unstable.String, set: func(v value) error {
		switch {
		case v.text == "":
			return refuse(name, v.text, "it is empty", "leave it out for the default")
		case strings.Contains(v.text, "\x00"):
			return refuse(name, v.text, "it has a zero byte", "take out the zero byte")
		}
		*to = v.text
		return nil
	}}
}

func listKey(name, example string, to *[]string) key {
	return key{name: name, takes: "a list of strings", example: example, kind: unstable.Array, set: func(v value) error {
		for _, item := range v.items {
			if strings.Contains(item, "\x00") {
				return refuse(name, item, "it has a zero byte", "take out the zero byte")
			}
		}
		*to = v.items
		return nil
	}}
}

func tableKey(name, example string, to *map[string]string, check func(name, text string) error) key {
	return key{name: name, takes: "a table of strings", example: example, kind: unstable.InlineTable, entry: func(n, text string) error {
		if err := check(n, text); err != nil {
			return err
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[n] = text
		return nil
	}}
}

func approvalKey(to *bridge.Approval) key {
	return key{name: "approve", takes: "a name in quotes", example: `approve = "writes"`, kind: unstable.String, set: func(v value) (err error) {
		*to, err = ParseApproval(v.text)
		return err
	}}
}

func boolKey(name, example string, set func(yes bool)) key {
	return key{name: name, takes: "true or false", example: example, kind: unstable.Bool, set: func(v value) error {
		set(v.text == "true")
		return nil
	}}
}

func durationKey(name, example string, to *time.Duration) key {
	return key{name: name, takes: "a duration in quotes", example: example, kind: unstable.String, set: func(v value) (err error) {
		*to, err = policy.ParseDuration(v.text)
		return err
	}}
}

func sizeKey(name, example string, to *policy.Size) key {
	return key{name: name, takes: "a size in quotes", example: example, kind: unstable.String, set: func(v value) (err error) {
		*to, err = policy.ParseSize(v.text)
		return err
	}}
}

// maxCount bounds the numbers of a file. Nobody counts that far.
const maxCount = 1_000_000_000

func countKey(name, example string, to *int) key {
	return key{name: name, takes: "a whole number", example: example, kind: unstable.Integer, set: func(v value) error {
		// Base 0 knows the prefixes and underscores of TOML.
		n, err := strconv.ParseInt(v.text, 0, 64)
		if err != nil || n < 1 || n > maxCount {
			return refuse(name, v.text, fmt.Sprintf("it is not 1 to %d", maxCount), "write "+example)
		}
		*to = int(n)
		return nil
	}}
}

// checkVariable says what is wrong with a variable. Its value may be a secret
// and is not repeated.
func checkVariable(name, text string) error {
	if _, _, err := policy.ParseEnv(name + "=" + text); err != nil {
		return err
	}
	return checkReferences(name, text)
}

// checkHeader says what is wrong with a header, as RFC 9110 has them.
func checkHeader(name, text string) error {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(marks, c) >= 0) {
			return refuse("header", name, "its name has a character that none may have", `write a name such as "Authorization"`)
		}
	}
	if name == "" {
		return refuse("header", name, "it has no name", `write a name such as "Authorization"`)
	}
	if isControlled(text) {
		return refuse("header", name, "its value has a control character", "take it out")
	}
	return checkReferences(name, text)
}

// isControlled says whether a header's value would be refused or, worse, be
// more than one header.
func isControlled(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// checkReferences says whether every ${ has a name and an end.
func checkReferences(field, text string) error {
	_, err := expand(text, func(string) (string, bool) { return "", true })
	if err != nil {
		return refuse("value of", field, err.Error(), "write ${NAME} for a variable of isolate's environment, $$ for a $")
	}
	return nil
}

// expand puts variables in the place of ${NAME}, and $ in that of $$.
func expand(text string, lookup func(name string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			text = after[1:]
		case strings.HasPrefix(after, "{"):
			name, rest, closed := strings.Cut(after[1:], "}")
			if _, _, err := policy.ParseEnv(name + "="); !closed || err != nil {
				return "", fmt.Errorf("after ${ there is no name and }")
			}
			v, ok := lookup(name)
			if !ok {
				return "", fmt.Errorf("variable %s is not set", quote(name))
			}
			b.WriteString(v)
			text = rest
		default:
			return "", fmt.Errorf("it has a $ that is neither ${NAME} nor $$")
		}
	}
}
