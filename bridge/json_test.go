package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func args(inner string) string { return `{"tool":"t","args":` + inner + `}` }

// B 59, C 21: each kind of bad JSON has its code, and none is read as
// something else.
func TestDecodeRefuses(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for name, c := range map[string]struct {
		raw  string
		code Code
		says string
	}{
		"empty":               {"", CodeBadJSON, "empty"},
		"space":               {" \n", CodeBadJSON, "ends early"},
		"half":                {`{"tool": "t", "args": {`, CodeBadJSON, "ends early"},
		"half string":         {`{"tool": "t`, CodeBadJSON, "ends early"},
		"half escape":         {`{"tool": "t\`, CodeBadJSON, "ends early"},
		"half hex":            {`{"tool": "\u00`, CodeBadJSON, "incomplete escape"},
		"bad hex":             {`{"tool": "\u00+1"}`, CodeBadJSON, "incomplete escape"},
		"list":                {`[1]`, CodeBadRequest, "not an object"},
		"number":              {`7`, CodeBadRequest, "not an object"},
		"string":              {`"x"`, CodeBadRequest, "not an object"},
		"null":                {`null`, CodeBadRequest, "not an object"},
		"two values":          {args("{}") + args("{}"), CodeBadJSON, "follows"},
		"trailing":            {args("{}") + "x", CodeBadJSON, "follows"},
		"trailing NUL":        {args("{}") + "\x00", CodeBadJSON, "follows"},
		"byte order mark":     {"\xef\xbb\xbf" + args("{}"), CodeBadJSON, "byte order mark"},
		"UTF-16":              {"\xff\xfe{\x00}\x00", CodeBadJSON, "UTF-8"},
		"bad UTF-8":           {args(`{"a":"` + "\xff" + `"}`), CodeBadJSON, "UTF-8"},
		"surrogate in UTF-8":  {args(`{"a":"` + "\xed\xa0\x80" + `"}`), CodeBadJSON, "UTF-8"},
		"overlong":            {args(`{"a":"` + "\xc0\xaf" + `"}`), CodeBadJSON, "UTF-8"},
		"high surrogate":      {args(`{"a":"\ud800"}`), CodeBadJSON, "surrogate"},
		"low surrogate":       {args(`{"a":"\udc00"}`), CodeBadJSON, "surrogate"},
		"high then text":      {args(`{"a":"\ud800x"}`), CodeBadJSON, "surrogate"},
		"two highs":           {args(`{"a":"\ud800\ud800"}`), CodeBadJSON, "surrogate"},
		"duplicate top":       {`{"tool":"a","tool":"b","args":{}}`, CodeBadJSON, `"tool" stands twice`},
		"duplicate":           {args(`{"a":1,"a":1}`), CodeBadJSON, "twice"},
		"duplicate, escaped":  {args(`{"a":1,"\u0061":2}`), CodeBadJSON, "twice"},
		"duplicate, deep":     {args(`{"x":[{"a":1,"a":2}]}`), CodeBadJSON, "twice"},
		"NaN":                 {args(`{"a":NaN}`), CodeBadJSON, "no value"},
		"Infinity":            {args(`{"a":-Infinity}`), CodeBadJSON, "no number"},
		"1e999":               {args(`{"a":1e999}`), CodeBadJSON, "too big"},
		"400 digits":          {args(`{"a":` + strings.Repeat("9", 400) + `}`), CodeBadJSON, "too big"},
		"401 digits":          {args(`{"a":0.` + strings.Repeat("9", 401) + `}`), CodeBadJSON, "longer than"},
		"leading zero":        {args(`{"a":01}`), CodeBadJSON, "no number"},
		"plus":                {args(`{"a":+1}`), CodeBadJSON, "no value"},
		"dot":                 {args(`{"a":1.}`), CodeBadJSON, "no number"},
		"dot first":           {args(`{"a":.5}`), CodeBadJSON, "no value"},
		"minus":               {args(`{"a":-}`), CodeBadJSON, "no number"},
		"exponent":            {args(`{"a":1e}`), CodeBadJSON, "no number"},
		"hex number":          {args(`{"a":0x10}`), CodeBadJSON, "no comma"},
		"single quotes":       {`{'tool':'t'}`, CodeBadJSON, "no key"},
		"comment":             {"/**/" + args("{}"), CodeBadJSON, "no value"},
		"comma at the end":    {args(`{"a":1,}`), CodeBadJSON, "no key"},
		"comma in a list":     {args(`{"a":[1,]}`), CodeBadJSON, "no value"},
		"no colon":            {`{"tool" "t"}`, CodeBadJSON, "no colon"},
		"tab in a string":     {args("{\"a\":\"\t\"}"), CodeBadJSON, "control character"},
		"NUL in a string":     {args("{\"a\":\"\x00\"}"), CodeBadJSON, "control character"},
		"newline after quote": {args("{\"a\":\"\\\"\n\"}"), CodeBadJSON, "control character"},
		"unknown escape":      {args(`{"a":"\x41"}`), CodeBadJSON, "unknown escape"},
		"True":                {args(`{"a":True}`), CodeBadJSON, "no value"},
		"depth 33":            {args(strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)), CodeBadJSON, "nested deeper than 32"},
		"depth a million":     {strings.Repeat("[", 1e6), CodeBadJSON, "nested deeper"},
		"a million keys":      {args(keys(1e6)), CodeBadJSON, "more than 10000"},
		"10k values":          {args(`{"a":[` + many(10_000, "0") + `]}`), CodeBadJSON, "more than 10000"},
		"long key":            {args(`{"` + strings.Repeat("k", 257) + `":1}`), CodeBadJSON, "key is longer"},
		"Tool":                {`{"Tool":"t","args":{}}`, CodeBadRequest, `"tool"`},
		"Tool besides tool":   {`{"tool":"t","args":{},"Tool":"u"}`, CodeBadRequest, `unknown field "Tool"`},
		"unknown field":       {`{"tool":"t","args":{},"x":1}`, CodeBadRequest, "unknown field"},
		"no tool":             {`{"args":{}}`, CodeBadRequest, `"tool"`},
		"tool is a list":      {`{"tool":["t"],"args":{}}`, CodeBadRequest, `"tool"`},
		"tool is null":        {`{"tool":null,"args":{}}`, CodeBadRequest, `"tool"`},
		"long tool":           {`{"tool":"` + strings.Repeat("t", 129) + `","args":{}}`, CodeUnknownTool, "too long"},
		"no args":             {`{"tool":"t"}`, CodeBadRequest, `"args"`},
		"args is a list":      {args(`[]`), CodeBadRequest, `"args"`},
		"args is null":        {args(`null`), CodeBadRequest, `"args"`},
		"args is text":        {args(`"{}"`), CodeBadRequest, `"args"`},
		"foreign id":          {`{"tool":"t","args":{},"id":"other"}`, CodeBadRequest, `"id"`},
		"id is a number":      {`{"tool":"t","args":{},"id":1}`, CodeBadRequest, `"id"`},
		"ack is text":         {`{"tool":"t","args":{},"ack":"a"}`, CodeBadRequest, `"ack"`},
		"ack with a path":     {`{"tool":"t","args":{},"ack":["../a"]}`, CodeBadRequest, `"ack"`},
		"ack with a number":   {`{"tool":"t","args":{},"ack":[1]}`, CodeBadRequest, `"ack"`},
	} {
		_, e := decode([]byte(c.raw), "me")
		if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Class != InvalidArguments {
			t.Errorf("%s: %v, want %s with %q", name, e, c.code, c.says)
		}
		if e != nil && (len(e.Message) > 400 || !utf8.ValidString(e.Message)) {
			t.Errorf("%s: the message has %d bytes: %q", name, len(e.Message), e.Message)
		}
	}
}

// What is accepted keeps its value, and has one form.
func TestDecodeKeeps(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30)
	for in, want := range map[string]string{
		`{}`:                             `{}`,
		` { "b" : 1 , "a" : [ ] } `:      `{"a":[],"b":1}`,
		`{"z":0,"é":1,"B":2,"a":3}`:      `{"B":2,"a":3,"z":0,"é":1}`,
		`{"n":[-0.0,-0,1E5,1e-7,2.50]}`:  `{"n":[-0.0,-0,1E5,1e-7,2.50]}`,
		`{"n":[9223372036854775808]}`:    `{"n":[9223372036854775808]}`,
		`{"n":[18446744073709551617]}`:   `{"n":[18446744073709551617]}`,
		`{"n":1e308}`:                    `{"n":1e308}`,
		`{"n":1e-400}`:                   `{"n":1e-400}`,
		`{"s":"\u0041\/\n\u0000\u001f"}`: `{"s":"A/\n\u0000\u001f"}`,
		`{"s":"\ud83d\ude00\""}`:         `{"s":"😀\""}`,
		`{"s":"` + "\u2028\x7f" + `"}`:   `{"s":"` + "\u2028\x7f" + `"}`,
		`{"\u0061":null,"b":[true]}`:     `{"a":null,"b":[true]}`,
		`{"\ufeff":1}`:                   "{\"\ufeff\":1}",
		deep:                             deep,
	} {
		w, e := decode([]byte(args(in)), "me")
		if e != nil {
			t.Errorf("%s: %v", in, e)
			continue
		}
		if got := string(appendCanonical(nil, w.args)); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	w, e := decode([]byte(`{"ack":["a","B-1"],"id":"me","args":{},"tool":"x/y.z"}`), "me")
	if e != nil || w.tool != "x/y.z" || !reflect.DeepEqual(w.acks, []string{"a", "B-1"}) {
		t.Errorf("%+v, %v", w, e)
	}
}

// B 59: the worst that fits into a request is judged in less than 50 ms.
func TestDecodeIsFast(t *testing.T) {
	const size = DefaultRequestBytes
	fill := func(head, body, tail string) []byte {
		n := (size - len(head) - len(tail)) / len(body)
		return []byte(head + strings.Repeat(body, n) + tail)
	}
	var wide bytes.Buffer
	for i := range 4990 {
		fmt.Fprintf(&wide, `"%0200d":"",`, 5000-i)
	}
	for name, raw := range map[string][]byte{
		"brackets":      fill("", "[", ""),
		"one text":      fill(args(`{"a":"`)[:22], "x", `"}}`),
		"escapes":       fill(`{"tool":"t","args":{"a":"`, `\u00e9`, `"}}`),
		"surrogates":    fill(`{"tool":"t","args":{"a":"`, `\ud83d\ude00`, `"}}`),
		"open text":     fill(`{"tool":"`, `\"`, ""),
		"spaces":        fill("", " ", args("{}")),
		"digits":        fill(args(`{"a":`)[:21], "9", "}}"),
		"commas":        fill(`{"tool":"t","args":{"a":[`, "0,", "0]}}"),
		"control chars": fill(`{"tool":"t","args":{"a":"`, "\u0080", `"}}`),
		"wide":          []byte(`{"tool":"t","args":{` + wide.String() + `"":0}}`),
		"long names":    fill(`{"tool":"t","args":{`, `"`+strings.Repeat("k", 250)+`":0,`, `"":0}}`),
	} {
		best := time.Hour
		for range 5 {
			begin := time.Now()
			if w, e := decode(raw, "me"); e == nil {
				appendCanonical(nil, w.args)
			}
			best = min(best, time.Since(begin))
		}
		t.Logf("%s: %v", name, best)
		if best > 500*time.Millisecond && !raceDetector {
			t.Errorf("%s: %v for %d bytes", name, best, len(raw))
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"null":                 "null",
		" {\n \"a\" : 1\r\n} ": `{"a":1}`,
		`"\ud800"`:             `"\ud800"`, // a half pair may come back: same value
	} {
		if got, ok := oneLine([]byte(in)); !ok || string(got) != want {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "x", "1 2", "{", "NaN", "\"\xff\"", "\"\n\""} {
		if got, ok := oneLine([]byte(in)); ok {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// A tool's number that programs would read as infinity is none of their values.
func TestExceeds(t *testing.T) {
	for in, want := range map[string]bool{
		`1e999`: true, `[0,-1e309]`: true, `{"a":1E+400}`: true, "1" + strings.Repeat("0", 400) + ".0": true,
		`1e308`: false, `-1.7976931348623157e308`: false, `1e-999`: false, "1" + strings.Repeat("0", 400): false,
		`"1e999"`: false, `{"1e999":["\\","\"1e999"],"e":2}`: false, `"\\"`: false, `true`: false, `[1e1,"",1e999]`: true,
	} {
		if !json.Valid([]byte(in)) {
			t.Errorf("%s is no JSON", in)
		}
		if got := exceeds([]byte(in)); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

// FuzzDecode: what passes is what encoding/json reads, has a canonical form
// that passes again unchanged, and keeps within the bounds.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "{}", args("{}"), args(`{"a":[1,-0.5e3,"\u00e9\ud83d\ude00",null,true]}`), args(`{"a":1,"a":2}`),
		`{"tool":"t","args":{},"id":"me","ack":["x"]}`, args(`{"a":{"b":{"c":[[]]}}}`), "\xef\xbb\xbf{}", args(`{"a":1e999}`)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, e := decode(raw, "me")
		if e != nil {
			if !utf8.ValidString(e.Message) || len(e.Message) > 1000 || catalogue[e.Code].class != e.Class {
				t.Fatalf("%q: error %+v", raw, e)
			}
			return
		}
		canonical := appendCanonical(nil, w.args)
		again, err := parse(canonical)
		if err != nil || !reflect.DeepEqual(again, any(w.args)) {
			t.Fatalf("%q: canonical %q: %v", raw, canonical, err)
		}
		if twice := appendCanonical(nil, again); !bytes.Equal(twice, canonical) {
			t.Fatalf("%q, then %q", canonical, twice)
		}
		var ours, theirs struct {
			Args any `json:"args"`
		}
		read := func(in []byte, to any) error {
			d := json.NewDecoder(bytes.NewReader(in))
			d.UseNumber()
			return d.Decode(to)
		}
		if err := read(raw, &theirs); err != nil {
			t.Fatalf("%q passed here only: %v", raw, err)
		}
		if err := read([]byte(args(string(canonical))), &ours); err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%q: read as %v, want %v (%v)", raw, ours, theirs, err)
		}
		native(w.args)
	})
}

// FuzzRequestID: an id that is served cannot leave a directory or be taken for
// another file of the protocol.
func FuzzRequestID(f *testing.F) {
	for _, s := range badNames {
		f.Add(s)
	}
	f.Add("req_a.json")
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := requestID(name)
		if !ok {
			return
		}
		if name != reqPrefix+id+jsonSuffix || len(id) < 1 || len(id) > 64 || passing(name) {
			t.Fatalf("%q gives %q", name, id)
		}
		for i, r := range id {
			plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
			if !plain && (i == 0 || r != '_' && r != '-') {
				t.Fatalf("%q gives %q", name, id)
			}
		}
	})
}

// badNames are names that are never served (B 56).
var badNames = []string{
	"req_.json", "req_../x.json", "req_a/b.json", "req_%2e%2e.json", "req_a b.json", "req_a\n.json",
	"req_a\x00.json", "req_-a.json", "req__a.json", "req_é.json", "req_а.json", "req_a.done", "req_a.json.done", "req_a.b.json",
	"resp_a.json", "Req_a.json", "req_a.JSON", "req_" + strings.Repeat("a", 65) + ".json", "req_" + strings.Repeat("a", 300) + ".json",
	"req_a.json ", " req_a.json", "req_a.json.tmp", ".req_a.json", "req_", ".json", "",
}

func TestBadNames(t *testing.T) {
	for _, name := range badNames {
		if id, ok := requestID(name); ok {
			t.Errorf("%q is served as %q", name, id)
		}
	}
	for _, id := range []string{"a", "A", "0", "a_-", strings.Repeat("a", 64), "0123456789abcdef0123456789abcdef"} {
		if got, ok := requestID("req_" + id + ".json"); !ok || got != id {
			t.Errorf("%q is not served", id)
		}
	}
}
