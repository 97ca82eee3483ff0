package stub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// shell is the tool command and the pages it shows.
func (m *model) shell() ([]File, error) {
	command, err := sdk.ReadFile("sdk/bin/tool")
	if err != nil {
		return nil, err
	}
	// Two files for all tools: each file of the bridge's file system takes a
	// page of memory. Every line begins with the number of its tool.
	list, pages := &page{}, &page{}
	for i, t := range m.tools {
		list.line("%s", strings.TrimRight(fmt.Sprintf("%d\t%s\t%s", i, plain(t.Name), firstLine(t.Description)), "\t"))
		page, err := t.shellPage()
		if err != nil {
			return nil, err
		}
		for l := range strings.SplitSeq(strings.TrimSuffix(page, "\n"), "\n") {
			pages.line("%d\t%s", i, l)
		}
	}
	return []File{
		{Path: BinPath + "/tool", Mode: 0o755, Content: command},
		{Path: "tool/list", Mode: 0o644, Content: []byte(list.String())},
		{Path: "tool/pages", Mode: 0o644, Content: []byte(pages.String())},
	}, nil
}

func (t *tool) shellPage() (string, error) {
	p := &page{}
	p.line("%s", plain(t.Name))
	if t.Description != "" {
		p.line("")
	}
	for _, l := range lines(t.Description) {
		p.line("%s", l)
	}
	for _, part := range []struct {
		title  string
		schema json.RawMessage
	}{{"Arguments", t.input}, {"Result", t.output}} {
		if part.schema == nil {
			continue
		}
		var b bytes.Buffer
		if err := json.Indent(&b, ascii(part.schema), "", "  "); err != nil {
			return "", err
		}
		p.line("")
		p.line("%s (JSON schema):", part.title)
		p.line("%s", b.String())
	}
	return p.String(), nil
}

// index is tools.json: everything about the tools, for any other language.
func (m *model) index() (File, error) {
	type signature struct {
		Python     string `json:"python"`
		TypeScript string `json:"typescript"`
	}
	type entry struct {
		Name        string          `json:"name"`
		Identifier  string          `json:"identifier"`
		Description string          `json:"description"`
		ReadOnly    bool            `json:"read_only"`
		Signature   signature       `json:"signature"`
		Input       json.RawMessage `json:"input"`
		Output      json.RawMessage `json:"output"`
	}
	all := struct {
		Tools []entry `json:"tools"`
	}{[]entry{}}
	for _, t := range m.tools {
		all.Tools = append(all.Tools, entry{
			Name: t.Name, Identifier: t.id, Description: t.Description, ReadOnly: t.readOnly(),
			Signature: signature{t.pythonLine(), t.scriptLine()},
			Input:     t.input, Output: t.output,
		})
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return File{}, err
	}
	return File{Path: "tools.json", Mode: 0o644, Content: append(ascii(b), '\n')}, nil
}

// ascii writes JSON so that it can be shown: what is not visible is escaped.
func ascii(raw []byte) []byte {
	var b strings.Builder
	for _, r := range string(raw) {
		if r < utf8.RuneSelf && r != 0x7f || visible(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(utf16Escape(r))
		}
	}
	return []byte(b.String())
}
