// Package stub generates the modules through which a program calls tools:
// Python, JavaScript with TypeScript declarations, and a shell command, with an
// index for any other language.
//
// Names, descriptions and schemas of tools are not trusted: they reach source
// code only through the encoders of literal.go and the identifiers of names.go.
// What the modules do at run time is in sdk/ and the same for every set of
// tools. The package writes nothing and needs no kernel.
package stub

import "github.com/isolate-run/isolate/bridge"

// File is one generated file.
type File struct {
	// Path is relative to the module directory, with slashes; its parents
	// are directories of mode 0755.
	Path string
	// Mode is 0644 or 0755.
	Mode    uint32
	Content []byte
}

// Where a program finds the modules, below bridge.SDKDir.
const (
	PythonPath = "python"       // for PYTHONPATH
	BinPath    = "bin"          // for PATH: the tool command
	NodePath   = "node_modules" // for NODE_PATH and the link /node_modules
)

// Generate makes the modules for a set of tools. The same set gives the same
// files. Names that clash after they were made into identifiers are an error,
// which lists all such clashes.
func Generate(set *bridge.Set) ([]File, error) { return generate(set.Tools()) }

// generate trusts nothing of the tools, not even what a Set has checked.
func generate(tools []bridge.Tool) ([]File, error) {
	m, err := newModel(tools)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, language := range []func() ([]File, error){m.python, m.script, m.shell} {
		f, err := language()
		if err != nil {
			return nil, err
		}
		files = append(files, f...)
	}
	index, err := m.index()
	if err != nil {
		return nil, err
	}
	return append(files, index), nil
}

// Signature is how a program calls a tool. All texts are of one line; what is
// in them of the tool's own is not trusted.
type Signature struct {
	// Name is the tool's, Identifier that of the function.
	Name, Identifier string
	// Python and TypeScript are the function's parameters and result.
	Python, TypeScript string
	// PythonTypes and TypeScriptTypes say what is in the types that are named
	// there, one a line; of many only the first are told.
	PythonTypes, TypeScriptTypes []string
	// About is the first line of the description; it may be empty.
	About string
}

// Signatures are those of the tools of a set, in its order.
func Signatures(set *bridge.Set) ([]Signature, error) {
	m, err := newModel(set.Tools())
	if err != nil {
		return nil, err
	}
	list := make([]Signature, len(m.tools))
	for i, t := range m.tools {
		list[i] = Signature{t.Name, t.id, t.pythonSignature(), t.scriptSignature(), t.typeLines(pythonType), t.typeLines(scriptDeclaration), firstLine(t.Description)}
	}
	return list, nil
}

// Bounds on what is told of one tool's types.
const (
	maxTypeLines = 12
	maxTypeLine  = 500
)

// typeLines are the tool's types in a language, as line writes them; one for
// which it writes nothing has no name there.
func (t *tool) typeLines(line func(*named) string) (lines []string) {
	for _, n := range t.types {
		text := line(n)
		switch {
		case text == "":
		case len(lines) == maxTypeLines:
			return append(lines, "…")
		default:
			lines = append(lines, short(text, maxTypeLine))
		}
	}
	return lines
}
