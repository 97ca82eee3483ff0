package isolate

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

var answers = map[string]struct {
	output string
	want   Answer
}{
	// cases.md C6: two, none, an empty one, one without newline
	"two":              {"RESULT: 1\nnoise\nRESULT: 2\nmore\n", Answer{"2", AnswerMarked}},
	"none":             {"first\nlast\n\n  \n", Answer{"last", AnswerLast}},
	"empty one":        {"RESULT: 1\nRESULT:\nend\n", Answer{"", AnswerMarked}},
	"no newline":       {"noise\nRESULT: 1950", Answer{"1950", AnswerMarked}},
	"nothing":          {"", Answer{"", AnswerNone}},
	"only space":       {"\n \r\n\t\n", Answer{"", AnswerNone}},
	"first line":       {"RESULT: 1\n", Answer{"1", AnswerMarked}},
	"not at the start": {" RESULT: 1\nthe RESULT: 2\n", Answer{"the RESULT: 2", AnswerLast}},
	"other case":       {"Result: 1\n", Answer{"Result: 1", AnswerLast}},
	"carriage return":  {"RESULT: 1\r\nx\r\n", Answer{"1", AnswerMarked}},
	"no space":         {"RESULT:{\"a\": 1}\n", Answer{`{"a": 1}`, AnswerMarked}},
	"adjacent":         {"\nRESULT: 1\nRESULT: 2\n\n", Answer{"2", AnswerMarked}},
	"longest":          {"RESULT: " + strings.Repeat("x", MaxAnswer) + "\n", Answer{strings.Repeat("x", MaxAnswer), AnswerMarked}},
	"too long":         {"RESULT: 1\nRESULT:" + strings.Repeat("x", MaxAnswer+1) + "\n", Answer{"", AnswerTooLong}},
	"much too long":    {strings.Repeat("x", 3*MaxAnswer), Answer{"", AnswerTooLong}},
	"long, then short": {strings.Repeat("x", 3*MaxAnswer) + "\nRESULT: 7", Answer{"7", AnswerMarked}},
	"split in a long":  {strings.Repeat("x", 2*MaxAnswer) + "RESULT: 7\ny", Answer{"y", AnswerLast}},
}

// The answer does not depend on how the output is cut into writes.
func TestAnswer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range answers {
		for _, most := range []int{1 << 30, 1 << 16, 100, 1} {
			if most == 1 && len(c.output) > 1<<16 {
				continue
			}
			var s answerScan
			for rest := []byte(c.output); len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(most))
				s.write(rest[:n])
				rest = rest[n:]
			}
			if got := s.answer(); got != c.want {
				t.Errorf("%s, in writes of up to %d: %.60q %s, want %.60q %s", name, most, got.Text, got.From, c.want.Text, c.want.From)
			}
		}
	}
}

// What the output limit drops is looked at, and looking needs bounded memory.
func TestAnswerBeyondTheLimit(t *testing.T) {
	c := newCapped(nil, 100, nil)
	c.answer = new(answerScan)
	noise := bytes.Repeat([]byte("noise\n"), 1000)
	c.write(noise)
	c.write([]byte("RESULT: 42\n"))
	for range 1000 {
		c.write(noise)
	}
	if s := c.finish(); bytes.Contains(s.Kept, []byte("RESULT")) || s.Dropped == 0 {
		t.Fatalf("the limit kept %q", s.Kept)
	}
	if got := c.answer.answer(); got != (Answer{"42", AnswerMarked}) {
		t.Errorf("got %+v", got)
	}
	if n := cap(c.answer.line.text) + cap(c.answer.last.text); n > 1<<20 {
		t.Errorf("%d bytes are held", n)
	}
}
