package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// What a tool declares of its result holds for the program.
func TestOutputSchema(t *testing.T) {
	var answer json.RawMessage
	tool := Tool{
		Name: "t", Run: func(context.Context, Call) (Reply, error) { return Reply{Value: answer}, nil },
		Output: schemaOf(t, `{"type":"object","properties":{"temp":{"type":"string"},"days":{"type":"array","items":{"type":"integer"}}},"required":["temp"]}`),
	}
	set, err := NewSet(tool)
	must(t, err)
	b := NewBroker(set, Options{})
	defer b.Close()
	for _, good := range []string{`{"temp":"warm"}`, `{"temp":"","days":[1,9223372036854775808]}`, `{"temp":"","days":[` + strings.Repeat("1,", 50_000) + `1]}`} {
		answer = json.RawMessage(good)
		if a := ask(b, "t", "{}"); a.Err != nil || string(a.Value) != good {
			t.Errorf("%.40s: answer %.40s, %v", good, a.Value, a.Err)
		}
	}
	for bad, says := range map[string]string{
		`{"temp":21.5}`:              `the tool's result does not fit its output schema: "temp" must be a string, not a number`,
		`{"temp":"","days":[1,"x"]}`: `"days[1]" must be an integer, not a string`,
		`{}`:                         `"temp" is required`,
		`7`:                          `it must be an object, not an integer`,
		`null`:                       `it must be an object, not null`,
	} {
		answer = json.RawMessage(bad)
		refused(t, ask(b, "t", "{}"), CodeBadResult, says)
		last := b.Summary().Calls[len(b.Summary().Calls)-1]
		if last.State != Done || last.Code != CodeBadResult || !strings.Contains(last.Detail, says) || !strings.HasSuffix(last.Detail, fmt.Sprintf("it was %q", bad)) {
			t.Errorf("%s: record %+v", bad, last)
		}
	}
	tool.Output = schemaOf(t, `{"$ref":"#/$defs/none"}`)
	if _, err := NewSet(tool); err == nil || !strings.Contains(err.Error(), `cannot use the output schema of tool "t"`) {
		t.Errorf("error %v", err)
	}
}

// A schema that was made of a Go type does not stand in the way of its values;
// one that was written does.
func TestOutputOfGo(t *testing.T) {
	type out struct {
		Seen map[string]int `json:"seen"`
		From netip.Addr     `json:"from"`
	}
	f := func(context.Context, struct{}) (out, error) { return out{From: netip.MustParseAddr("::1")}, nil }
	derived, err := NewTool(Tool{Name: "derived"}, f)
	must(t, err)
	written, err := NewTool(Tool{Name: "written", Output: schemaOf(t, `{"properties":{"seen":{"type":"object"}}}`)}, f)
	must(t, err)
	set, err := NewSet(derived, written)
	must(t, err)
	b := NewBroker(set, Options{})
	defer b.Close()
	if a := ask(b, "derived", "{}"); a.Err != nil || string(a.Value) != `{"seen":null,"from":"::1"}` {
		t.Errorf("answer %s, %v", a.Value, a.Err)
	}
	refused(t, ask(b, "written", "{}"), CodeBadResult, `"seen" must be an object, not null`)
}
