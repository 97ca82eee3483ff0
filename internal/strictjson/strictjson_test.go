package strictjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTwice(t *testing.T) {
	many := `{`
	for i := range 100 {
		many += fmt.Sprintf(`"n%d":%d,`, i, i)
	}
	for text, want := range map[string]string{
		`{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}`: "",
		`["a","a"]`:                         "",
		`{"a":"a","b":"a","c":":"}`:         "",
		`{"a":1,"a":2}`:                     "a",
		`{"a":{"b":[{"c":1 , "c" :2}]}}`:    "c",
		`{"a":1,"\u0061":2}`:                "a",
		`{"a\"":1,"a\u0022":2}`:             `a"`,
		`{"a":[],"b":{},"a":0}`:             "a",
		`[{"a":1},{"b":1,"b":1}]`:           "b",
		many + `"n":1}`:                     "",
		many + `"n3":1}`:                    "n3",
		many + `"n99":1}`:                   "n99",
		`"`:                                 "",
		`}}]"a":{"\`:                        "",
		`{"":1,"":2}`:                       "",
		"{\"\xff\":1,\"\xfe\":2}":           "\uFFFD",
		`{"a":"\\","b":"\\\"","a":0}`:       "a",
		strings.Repeat("[", 1000) + `{"a":`: "",
	} {
		got, twice := Twice([]byte(text))
		if got != want || twice != (want != "" || text == `{"":1,"":2}`) {
			t.Errorf("Twice(%.40s) = %q, %v", text, got, twice)
		}
	}
}

func TestDecode(t *testing.T) {
	type part struct {
		Source string `json:"source"`
	}
	type whole struct {
		Args  []string          `json:"args"`
		Env   map[string]string `json:"env,omitempty"`
		In    []part            `json:"in"`
		One   *part             `json:"one"`
		Raw   json.RawMessage   `json:"raw"`
		Bytes []byte            `json:"bytes"`
		By    map[string]part   `json:"by"`
	}
	for text, want := range map[string]string{
		`{"args":["a"],"env":{"A":"1","a":"2"},"in":[{"source":"x"}],"one":null,"raw":{"X":1,"x":2},"bytes":"AA==","by":{"K":{"source":""}}}`: "",
		`{"args":[],"args":[]}`:      `"args" stands twice`,
		`{"raw":{"x":1,"x":2}}`:      `"x" stands twice`,
		`{"Args":[]}`:                `unknown field "Args"`,
		`{"argſ":[]}`:                `unknown field "argſ"`,
		`{"in":[{"Source":"x"}]}`:    `unknown field "Source"`,
		`{"one":{"SOURCE":"x"}}`:     `unknown field "SOURCE"`,
		`{"by":{"k":{"Source":""}}}`: `unknown field "Source"`,
		`{"other":1}`:                `unknown field "other"`,
		`{} {}`:                      "more after it",
		`{`:                          "unexpected EOF",
	} {
		err := Decode([]byte(text), new(whole))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Decode(%s): got %v, want %q", text, err, want)
		}
	}
}

// What Twice finds the library's own reader finds too.
func FuzzTwice(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":1,"\u0062":2}],"c":"\\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, twice := Twice(data)
		if !json.Valid(data) {
			return
		}
		if want := slow(json.NewDecoder(strings.NewReader(string(data)))); want != twice {
			t.Errorf("Twice(%q) = %q, %v, want %v", data, name, twice, want)
		}
	})
}

func slow(d *json.Decoder) bool {
	d.UseNumber()
	twice := false
	var value func()
	value = func() {
		t, err := d.Token()
		if err != nil {
			return
		}
		switch t {
		case json.Delim('{'):
			seen := map[string]bool{}
			for d.More() {
				n, err := d.Token()
				if err != nil {
					return
				}
				twice = twice || seen[n.(string)]
				seen[n.(string)] = true
				value()
			}
			_, _ = d.Token()
		case json.Delim('['):
			for d.More() {
				value()
			}
			_, _ = d.Token()
		}
	}
	value()
	return twice
}
