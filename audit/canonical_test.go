package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCanonical(t *testing.T) {
	in := map[string]any{"b": []any{1, "a\u2028é\x00\x1f\b\"\\/<", nil, true}, "a": map[string]any{}, "B": -5}
	got, err := canonical(in)
	must(t, err)
	want := "{\"B\":-5,\"a\":{},\"b\":[1,\"a\u2028é\\u0000\\u001f\\b\\\"\\\\/<\",null,true]}"
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	must(t, scanObject(got, func(_, _ []byte) error { return nil }))
	for _, bad := range []any{map[string]any{"x": 1.5}, map[string]any{"x": 1 << 60}, map[string]any{"é": 1}, map[string]any{"": 1}, deep(20)} {
		if b, err := canonical(bad); err == nil {
			t.Errorf("%s was encoded", b)
		}
	}
}

func deep(n int) any {
	if n == 0 {
		return 1
	}
	return []any{deep(n - 1)}
}

func TestScannerIsStrict(t *testing.T) {
	for _, bad := range []string{
		``, `1`, `[]`, `{`, `{}x`, `{} `, `{"a":1,}`, `{"a" :1}`, `{"a":01}`, `{"a":-0}`, `{"a":1e3}`, `{"a":1.0}`, `{"a":+1}`, `{"a":--1}`,
		`{"a":9007199254740992}`, `{"b":1,"a":1}`, `{"a":1,"a":1}`, `{"a":"\/"}`, `{"a":"\u0041"}`, `{"a":"\u000a"}`, `{"a":"\u001F"}`,
		`{"a":"\x"}`, `{"a":"` + "\n" + `"}`, `{"a":"` + "\xff" + `"}`, `{"a":tru}`, `{"a":nul}`, `{"\u0061":1}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a":"}`, `{"a":"\u00`,
		`{"a":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`,
	} {
		if scanObject([]byte(bad), func(_, _ []byte) error { return nil }) == nil {
			t.Errorf("%s is taken for canonical", bad)
		}
	}
}

// Every event survives being written and read.
func TestEventsRoundTrip(t *testing.T) {
	for _, k := range Vocabulary() {
		v := reflect.New(reflect.TypeOf(k.zero)).Elem()
		for i := range v.NumField() {
			fill(v.Field(i))
		}
		b, err := encode(envelope{Data: v.Interface().(Event), Seq: 4, Run: "r", Policy: "p", After: "x", Time: time.Unix(1e9, 5000).UTC().Format(timeForm), Mono: 6})
		must(t, err)
		r, err := ParseRecord(b)
		must(t, err)
		e, err := r.Decode()
		must(t, err)
		if !reflect.DeepEqual(e, v.Interface()) || r.Event != k.Name || r.Seq != 4 || r.Run != "r" || r.Policy != "p" || r.After != "x" || r.Mono != 6*time.Microsecond || r.Time.Unix() != 1e9 {
			t.Errorf("%s came back as %+v, %+v", k.Name, r, e)
		}
		for _, f := range k.Fields() {
			if f.Name == "" || f.Meaning == "" {
				t.Errorf("a field of %s is not documented: %+v", k.Name, f)
			}
		}
	}
}

func fill(f reflect.Value) {
	switch f.Kind() {
	case reflect.String:
		f.SetString("text")
	case reflect.Int, reflect.Int64:
		f.SetInt(7)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Slice:
		f.Set(reflect.ValueOf([]string{"a", "b"}))
	case reflect.Map:
		f.Set(reflect.ValueOf(map[string]int64{"a": 1}))
	case reflect.Pointer:
		f.Set(reflect.ValueOf(&Payload{Digest: "d", Nonce: "n", Size: 3, Text: "t", Cut: true}))
	}
}

func TestDocument(t *testing.T) {
	const file = "../docs/audit-events.md"
	want := EventsDocument()
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skip("needs the source tree")
	}
	must(t, err)
	if string(got) != want {
		t.Errorf("%s differs; run go test ./audit -run Document -update", file)
	}
}

// docs/audit.md has every reason with its exit code.
func TestReasonsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/audit.md")
	if os.IsNotExist(err) {
		t.Skip("needs the source tree")
	}
	must(t, err)
	for _, r := range Reasons() {
		if row := fmt.Sprintf("| %d | `%s` |", r.ExitCode(), r); !strings.Contains(string(doc), row) {
			t.Errorf("docs/audit.md has no row %q", row)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"data":{"a":[1,"x"]},"event":"run.end","mono_us":1,"seq":0,"time":"2026-01-02T03:04:05.000006Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		// What is taken for canonical is what encoding makes of it.
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q is no JSON: %v", b, err)
		}
		again, err := appendCanonical(nil, v, 0)
		if err != nil || string(again) != string(b) {
			t.Fatalf("%q is written %q, %v", b, again, err)
		}
		_, _ = r.Decode()
	})
}
