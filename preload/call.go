package preload

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is what a command line has the interpreter run.
type Kind string

// The kinds, as template.py knows them.
const (
	Command Kind = "command" // the text after -c
	Module  Kind = "module"  // the module after -m
	File    Kind = "file"    // a script, a directory, an archive
	Stdin   Kind = "stdin"   // a script from standard input
)

// Call is a command line, read.
type Call struct {
	Kind Kind
	// What is the text, the module or the path; empty for Stdin.
	What string
	// Options are letters: u (unbuffered), B (no bytecode files).
	Options string
	// Argv is sys.argv; Args is all of the command line.
	Argv, Args []string
}

// Read reads a command line for the interpreter. Only what an interpreter that
// has been started already can still do is accepted.
func Read(args []string) (Call, *Problem) {
	c := Call{Args: args}
	if len(args) == 0 || args[0] != PythonProgram {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return c, &Problem{
			"cannot run " + strconv.Quote(shorten(name)) + " preloaded: it is not " + PythonProgram,
			"name the program " + PythonProgram + " (a script after it), or leave the preloading out",
		}
	}
	rest := args[1:]
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		word := rest[0]
		rest = rest[1:]
		if word == "--" {
			break
		}
		for i, letter := range word[1:] {
			switch letter {
			case 'u', 'B':
				c.Options += string(letter)
				continue
			case 'c', 'm':
				return c.after(letter, word[i+2:], rest)
			}
			return c, &Problem{
				"cannot give a preloaded interpreter the option " + strconv.Quote(shorten(word)) + ": it has been started already",
				"use -c, -m, -u, -B only, set what the option does by a PYTHON… variable of the policy, or leave the preloading out",
			}
		}
	}
	if len(rest) == 0 || rest[0] == "-" {
		c.Kind, c.Argv = Stdin, []string{""}
		if len(rest) > 0 {
			c.Argv = rest
		}
		return c, nil
	}
	c.Kind, c.What, c.Argv = File, rest[0], rest
	return c, nil
}

// after reads what follows -c or -m: the rest of its word, or the next one.
func (c Call) after(letter rune, what string, rest []string) (Call, *Problem) {
	if what == "" {
		if len(rest) == 0 {
			return c, &Problem{"cannot run: -" + string(letter) + " needs an argument", "give one"}
		}
		what, rest = rest[0], rest[1:]
	}
	c.Kind, c.What = Command, what
	if letter == 'm' {
		c.Kind = Module
	}
	c.Argv = slices.Concat([]string{"-" + string(letter)}, rest)
	return c, nil
}

// shorten bounds what an error repeats.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most]
	}
	return s
}

// Encode is what template.py reads: words, each with a NUL byte at its end;
// before each of the three lists stands its length. No word may have a NUL
// byte: no argument and no variable of a program can.
func (c Call) Encode(env []string) []byte {
	var b strings.Builder
	word := func(s string) { b.WriteString(s); b.WriteByte(0) }
	word(string(c.Kind))
	word(c.What)
	word(c.Options)
	for _, list := range [][]string{c.Argv, c.Args, env} {
		word(strconv.Itoa(len(list)))
		for _, s := range list {
			word(s)
		}
	}
	return []byte(b.String())
}
