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

// The blocks of the document for authors run, and say what it says they do.
func TestDocument(t *testing.T) {
	testenv.Require(t, testenv.Python3, testenv.Node, testenv.Tool("perl"))
	b, err := os.ReadFile("../../docs/tools-sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	get := bridge.Tool{
		Name: "get_invoice", Description: "Get one invoice.",
		Input:  parse(t, `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
		Output: parse(t, invoice),
		Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) {
			var a struct{ ID string }
			if err := json.Unmarshal(c.Args, &a); err != nil {
				return bridge.Reply{}, err
			}
			total, known := map[string]string{"INV-1": "1200", "INV-2": "750"}[a.ID]
			if !known {
				return bridge.Reply{}, &bridge.Error{Class: bridge.Failed, Code: "no_such_invoice", Message: "there is no invoice " + a.ID}
			}
			return bridge.Reply{Value: json.RawMessage(`{"id":"` + a.ID + `","total":` + total + `}`)}, nil
		},
	}
	h := serve(t, bridge.Options{}, get)
	line := `get_invoice(*, id: str) -> GetInvoiceResult  # Get one invoice.`
	want := map[string][]string{
		"python": {"['" + line + "']\n1200\nno_such_invoice there is no invoice none None\n1950", "[1200, 750]"},
		"javascript": {"[\n  'get_invoice(args: { id: string }): Promise<GetInvoiceResult>  // Get one invoice.'\n]\n1200\n[ 1200, 750 ]\n1200\n" +
			"ToolFailed no_such_invoice get_invoice: there is no invoice none null"},
		"perl": {"1200"},
	}
	programs := map[string][]string{"python": {python}, "javascript": {"node"}, "sh": {"/bin/sh"}, "perl": {"perl"}}
	files := map[string]string{"javascript": "program.mjs"}
	for _, part := range strings.Split(string(b), "\n```")[1:] {
		language, text, _ := strings.Cut(part, "\n")
		argv, known := programs[language]
		if !known {
			continue
		}
		name := files[language]
		if name == "" {
			name = "program"
		}
		path := filepath.Join(h.modules, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got := h.output(t, argv[0], append(argv[1:], path)...)
		if language == "sh" {
			for _, w := range []string{"get_invoice\tGet one invoice.\n", `{"id":"INV-1","total":1200}`, `{"id":"INV-2","total":750}`, "no_such_invoice: there is no invoice none", "exit code 14"} {
				if !strings.Contains(got, w) {
					t.Errorf("the shell's block prints\n%s\nwithout %s", got, w)
				}
			}
			continue
		}
		if len(want[language]) == 0 {
			t.Fatalf("a block of %s that this test does not expect", language)
		}
		compare(t, got, want[language][0])
		want[language] = want[language][1:]
	}
	for language, rest := range want {
		if len(rest) > 0 {
			t.Errorf("%d blocks of %s are missing", len(rest), language)
		}
	}
}
