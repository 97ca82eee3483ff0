// Package preload knows the interpreters that a cell can start before its
// programs: their names, how a command line for one is read, and what such an
// interpreter runs (template.py).
//
// It starts nothing: package container does. It needs no kernel.
package preload

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// Template is the program of the interpreter, its first argument being where
// in keeper.Image the function isolate_keeper_warm begins, the others the
// modules to import.
//
//go:embed template.py
var Template []byte

// Python is the name of the one interpreter there is, PythonProgram that of its
// executable, which is looked up in the sandbox's PATH.
const (
	Python        = "python"
	PythonProgram = "python3"
)

// Bounds of the list of modules: all of it is one command line.
const (
	MaxModules    = 64
	MaxModuleName = 255
)

// Spec says what is started ahead. The zero value is nothing.
type Spec struct {
	// Interpreter is its name: Python.
	Interpreter string `json:"interpreter"`
	// Modules are imported in this order. None is allowed.
	Modules []string `json:"modules,omitempty"`
}

// Problem is what is wrong, and what to do instead.
type Problem struct{ What, Hint string }

const form = `write python, or python:numpy,pandas`

// Parse reads "python" or "python:numpy,pandas".
func Parse(text string) (Spec, *Problem) {
	name, list, some := strings.Cut(text, ":")
	s := Spec{Interpreter: name}
	if some {
		s.Modules = strings.Split(list, ",")
	}
	return s, s.Check()
}

// Check says what is wrong with a Spec; nil if nothing is.
func (s Spec) Check() *Problem {
	if s.IsZero() {
		return nil
	}
	if s.Interpreter != Python {
		return &Problem{fmt.Sprintf("cannot preload %.80q: no interpreter has that name", s.Interpreter), form}
	}
	if len(s.Modules) > MaxModules {
		return &Problem{fmt.Sprintf("cannot preload %d modules", len(s.Modules)), fmt.Sprintf("name at most %d: what they import comes with them", MaxModules)}
	}
	for _, m := range s.Modules {
		if !isModule(m) {
			return &Problem{fmt.Sprintf("cannot preload module %.80q: it is not a name as in an import statement", m), form}
		}
	}
	return nil
}

// IsZero tells whether nothing is to be preloaded.
func (s Spec) IsZero() bool { return s.Interpreter == "" && len(s.Modules) == 0 }

// String is what Parse reads.
func (s Spec) String() string {
	if len(s.Modules) == 0 {
		return s.Interpreter
	}
	return s.Interpreter + ":" + strings.Join(s.Modules, ",")
}

// Clone shares nothing with the receiver.
func (s Spec) Clone() Spec { return Spec{s.Interpreter, slices.Clone(s.Modules)} }

// isModule tells whether a name is identifiers with dots between them. Python
// has identifiers beyond ASCII, which no module of note uses.
func isModule(name string) bool {
	if len(name) > MaxModuleName {
		return false
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for _, c := range []byte(part) {
			if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
				return false
			}
		}
	}
	return true
}

// ReadAtStart tells whether the interpreter or a numeric library reads a
// variable when it starts, and never again: a program that finds it otherwise
// would not be obeyed.
func ReadAtStart(variable string) bool {
	switch variable {
	case "LANG", "LANGUAGE", "TZ":
		return true
	}
	return strings.HasPrefix(variable, "PYTHON") || strings.HasPrefix(variable, "LC_") || strings.HasSuffix(variable, "_NUM_THREADS")
}

// Environment is the part of a program's environment ("K=V") that the
// interpreter is started with: no other value, which may be a secret, gets
// into the memory of more than one sandbox.
func Environment(env []string) []string {
	out := []string{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if name == "PATH" || name == "HOME" || ReadAtStart(name) {
			out = append(out, kv)
		}
	}
	return out
}
