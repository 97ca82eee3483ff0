package program

import (
	"strings"
	"testing"
)

// Item 17 of the bridge's protocol: which part of a reply is the program.
func TestReply(t *testing.T) {
	for name, c := range map[string]struct{ text, lang, code, language string }{
		"tagged":            {"Here:\n```python\nprint(1)\n```\nDone.\n", "python", "print(1)\n", "python"},
		"short tag":         {"```py\nprint(1)\n```\n", "python", "print(1)\n", "python"},
		"untagged":          {"```\nprint(1)\n```\n", "python", "print(1)\n", "python"},
		"first of two":      {"```\n1\n```\n```python\n2\n```\n", "python", "1\n", "python"},
		"another language":  {"```sh\npip install x\n```\n```python\nprint(1)\n```\n", "python", "print(1)\n", "python"},
		"no block":          {"print(1)\n", "python", "print(1)\n", "python"},
		"none of that":      {"```sh\nls\n```\n", "python", "```sh\nls\n```\n", "python"},
		"tag tells":         {"```\nx\n```\n```JavaScript\n1\n```\n", "", "1\n", "js"},
		"nothing tells":     {"```\nx\n```\n", "", "x\n", ""},
		"plain":             {"x", "", "x", ""},
		"cut off":           {"```python\nprint(1)\n", "python", "print(1)\n", "python"},
		"no newline":        {"```python\nprint(1)\n```", "python", "print(1)\n", "python"},
		"carriage returns":  {"```python\r\nprint(1)\r\n```\r\n", "python", "print(1)\r\n", "python"},
		"tildes":            {"~~~python\n```\n~~~\n", "python", "```\n", "python"},
		"longer fence":      {"````python\n```\nx\n```\n````\n", "python", "```\nx\n```\n", "python"},
		"indented":          {"  ```python\n  x\n  ```\n", "python", "  x\n", "python"},
		"indented too far":  {"    ```python\n    x\n    ```\n", "python", "    ```python\n    x\n    ```\n", "python"},
		"inline":            {"``` x ``` is code\n```python\n1\n```\n", "python", "1\n", "python"},
		"attributes":        {"```{.python} title\n1\n```\n", "python", "1\n", "python"},
		"quotes in program": {"```python\ns = '```'\n```\n", "python", "s = '```'\n", "python"},
		"empty block":       {"```python\n```\n", "python", "", "python"},
	} {
		code, language := Reply([]byte(c.text), c.lang)
		if string(code) != c.code || language != c.language {
			t.Errorf("%s: %q in %q, want %q in %q", name, code, language, c.code, c.language)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add("a\n```python\nb\n```\n", "python")
	f.Add("~~~~\n```\n", "")
	f.Fuzz(func(t *testing.T, text, lang string) {
		code, language := Reply([]byte(text), lang)
		if !strings.Contains(text, string(code)) && !strings.Contains(text, "\n") {
			t.Errorf("%q is not in the reply", code)
		}
		if _, known := Suffix(language); language != lang && !known {
			t.Errorf("language %q", language)
		}
	})
}
