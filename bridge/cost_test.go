package bridge

import (
	"strings"
	"testing"
	"time"
)

// A schema of a stranger cannot end the host, nor hold it up: references that
// come back to the same value overflowed the validator's stack, which no
// recover catches, and those that branch took hours for arguments of 200 bytes.
func TestEndlessSchemas(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 28) + `1` + strings.Repeat(`}`, 28)
	for name, c := range map[string]struct{ schema, args string }{
		"reference to itself": {`{"type":"object","$ref":"#"}`, `{}`},
		"all of itself":       {`{"type":"object","allOf":[{"$ref":"#"}]}`, `{}`},
		"an argument":         {`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`, `{"a":1}`},
		"two by turns":        {`{"type":"object","$defs":{"x":{"anyOf":[{"$ref":"#/$defs/y"}]},"y":{"not":{"$ref":"#/$defs/x"}}},"additionalProperties":{"$ref":"#/$defs/x"}}`, `{"a":1}`},
		"an anchor":           {`{"type":"object","items":{"$anchor":"n","if":{"$ref":"#n"}},"properties":{"a":{"$ref":"#n"}}}`, `{"a":1}`},
		"names":               {`{"type":"object","$defs":{"x":{"$ref":"#/$defs/x"}},"propertyNames":{"$ref":"#/$defs/x"}}`, `{"a":1}`},
		"twice at each level": {`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}},"required":["a"]}`, nested},
		"printed too often":   {`{"type":"object","properties":{"a":{"anyOf":[` + strings.Repeat(`{"const":1},`, 2000) + `{"const":2}]}}}`, `{"a":"` + strings.Repeat("x", 1_000_000) + `"}`},
	} {
		b := newBroker(t, Options{}, Tool{Name: "t", Input: schemaOf(t, c.schema), Run: echo.Run})
		begun := time.Now()
		refused(t, ask(b, "t", c.args), CodeInvalid, "too many steps")
		if d := time.Since(begun); d > 20*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
	for name, schema := range map[string]string{
		"dynamic":    `{"type":"object","$dynamicAnchor":"n","allOf":[{"$dynamicRef":"#n"}]}`,
		"ids inside": `{"type":"object","$id":"http://h/a","properties":{"a":{"$id":"http://h/b","$ref":"#"}}}`,
	} {
		if _, err := NewSet(Tool{Name: "t", Input: schemaOf(t, schema), Run: echo.Run}); err == nil {
			t.Errorf("%s: a schema was taken whose references cannot be followed", name)
		}
	}
	// A default is held against its schema, too.
	b := newBroker(t, Options{}, Tool{Name: "t", Input: schemaOf(t, `{"type":"object","properties":{"a":{"$ref":"#/properties/a","default":1}}}`), Run: echo.Run})
	if a := ask(b, "t", `{}`); a.Err != nil {
		t.Error(a.Err)
	}
}

// What an honest tool gets is not near the bound.
func TestStepsOfHonestSchemas(t *testing.T) {
	const id = `"01234567-89ab-cdef-0123-456789abcdef"`
	tree := `{"v":1,"kids":[` + strings.Repeat(`{"v":1},`, 2000) + `{"v":1,"kids":[{"kids":[]}]}]}`
	for name, c := range map[string]struct{ schema, args string }{
		"large text": {`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":["string","null"],"pattern":"x$"}},"required":["path"],"additionalProperties":false}`,
			`{"path":"p","content":"` + strings.Repeat("x", 1_000_000) + `"}`},
		"many patterns": {`{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string","pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}}}}`,
			`{"ids":[` + strings.Repeat(id+",", 9_000) + id + `]}`},
		"tree":     {`{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#"}}}}`, tree},
		"tree, id": {`{"$id":"http://h/tree","type":"object","properties":{"v":{"anyOf":[{"type":"integer"},{"type":"null"}]},"kids":{"type":"array","items":{"$ref":"http://h/tree#"}}}}`, tree},
		"odd keys": {`{"type":"object","$defs":{"a/b~c d":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/a~1b~0c%20d"}}}`, `{"n":1}`},
	} {
		b := newBroker(t, Options{}, Tool{Name: "t", Input: schemaOf(t, c.schema), Run: echo.Run})
		if a := ask(b, "t", c.args); a.Err != nil {
			t.Errorf("%s: %v", name, a.Err)
		}
	}
}
