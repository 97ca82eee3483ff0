package stub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate/bridge"
)

func signatures(t *testing.T, tool bridge.Tool) []Signature {
	t.Helper()
	tool.Run = func(context.Context, bridge.Call) (bridge.Reply, error) { return bridge.Reply{}, nil }
	set, err := bridge.NewSet(tool)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Signatures(set)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A model that writes a program has signatures and nothing else: what is in a
// type that one names stands with it.
func TestSignatureTypes(t *testing.T) {
	list := signatures(t, bridge.Tool{
		Name:   "find",
		Input:  parseSchema(t, `{"type":"object","properties":{"by":{"type":"object","properties":{"name":{"type":"string"}}}}}`),
		Output: parseSchema(t, `{"type":"array","items":{"type":"object","properties":{"total":{"type":"integer"},"e-mail":{"type":["string","null"]}},"required":["total"],"additionalProperties":false}}`),
	})
	python := []string{`FindBy = {"name": NotRequired[str]}`, `FindResultItem = {"total": int, "e-mail": NotRequired[str | None]}`}
	script := []string{"interface FindBy { name?: string }", `interface FindResultItem { total: number; "e-mail"?: string | null }`}
	if s := list[0]; !slices.Equal(s.PythonTypes, python) || !slices.Equal(s.TypeScriptTypes, script) {
		t.Errorf("types of %s are\n%q\n%q\nwant\n%q\n%q", s.Python, s.PythonTypes, s.TypeScriptTypes, python, script)
	}
}

// However much a schema names, a signature stays fit to be shown.
func TestSignatureTypesAreBounded(t *testing.T) {
	var fields []string
	for i := range 3 * maxTypeLines {
		fields = append(fields, fmt.Sprintf(`"f%d":{"type":"object","properties":{%q:{"type":"string"}}}`, i, strings.Repeat("x", 2*maxTypeLine)))
	}
	list := signatures(t, bridge.Tool{Name: "many", Output: parseSchema(t, `{"type":"object","properties":{`+strings.Join(fields, ",")+`}}`)})
	lines := list[0].PythonTypes
	if len(lines) != maxTypeLines+1 || lines[maxTypeLines] != "…" {
		t.Fatalf("there are %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	for _, l := range lines {
		if len(l) > maxTypeLine+len(" …") {
			t.Errorf("a line has %d bytes", len(l))
		}
	}
}
