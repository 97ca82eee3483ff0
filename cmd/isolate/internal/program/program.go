// Package program knows program files: what runs them, by their name and their
// first bytes, and how to tell a model that its program failed.
//
// It reads no file and starts nothing; what is given to it comes from whoever
// wrote the program and is not trusted. It needs no kernel.
package program

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// HeadSize is how many bytes of a file Choose wants to see: the kernel reads no
// more of a "#!" line either (BINPRM_BUF_SIZE).
const HeadSize = 256

// Start says how a program file is run.
type Start struct {
	// Command comes before the path of the file. Empty means that the file is
	// executed itself.
	Command []string
	// Language is one of Languages; empty for a file that says by its "#!"
	// line, or as machine code, what it is.
	Language string
}

// TypeScript is the language that not every version of its interpreter runs.
const TypeScript = "ts"

// language is one that a suffix stands for.
type language struct {
	name string
	// also are its other names: those that people type, and models write
	// behind the fence of a block.
	also     []string
	suffixes []string
	command  []string
	// byLine lets a "#!" line choose another interpreter than command.
	byLine bool
}

// languages are tried in order. JavaScript has three suffixes because they
// mean different kinds of modules to its interpreter.
var languages = []language{
	{name: "python", also: []string{"py", "python3"}, suffixes: []string{".py"}, command: []string{"python3"}},
	{name: "js", also: []string{"javascript", "mjs", "node", "nodejs"}, suffixes: []string{".js", ".mjs", ".cjs"}, command: []string{"node"}},
	{name: TypeScript, also: []string{"typescript"}, suffixes: []string{".ts", ".mts", ".cts"}, command: []string{"node"}},
	{name: "sh", also: []string{"shell"}, suffixes: []string{".sh"}, command: []string{"sh"}, byLine: true},
	{name: "bash", suffixes: []string{".bash"}, command: []string{"bash"}},
	{name: "perl", also: []string{"pl"}, suffixes: []string{".pl"}, command: []string{"perl"}},
	{name: "ruby", also: []string{"rb"}, suffixes: []string{".rb"}, command: []string{"ruby"}},
}

// Languages are the names that Choose and Suffix take, in a fixed order.
func Languages() []string {
	names := make([]string, len(languages))
	for i, l := range languages {
		names[i] = l.name
	}
	return names
}

// Aliases are the other names of a language of Languages.
func Aliases(lang string) []string {
	for _, l := range languages {
		if l.name == lang {
			return l.also
		}
	}
	return nil
}

// Language is the name in Languages of what somebody calls a language, in
// whatever case; empty if there is none.
func Language(called string) string {
	called = strings.ToLower(called)
	for _, l := range languages {
		if l.name == called || slices.Contains(l.also, called) {
			return l.name
		}
	}
	return ""
}

// Suffix is the ending of a file in a language; false if there is no such one.
// JavaScript without a file name is a module, which may import and await.
func Suffix(lang string) (string, bool) {
	for _, l := range languages {
		switch {
		case l.name != lang:
		case lang == "js":
			return ".mjs", true
		default:
			return l.suffixes[0], true
		}
	}
	return "", false
}

// Why Choose cannot say what runs a file.
var (
	ErrEmpty         = errors.New("it is empty")
	ErrUnknown       = errors.New("neither its name nor its first line says what runs it")
	ErrNotExecutable = errors.New("it is machine code and not executable")
	ErrNoInterpreter = errors.New(`its "#!" line names no interpreter`)
)

// Choose says what runs the file of that name with the permissions mode, which
// begins with head: up to HeadSize bytes. lang, if it is not empty, is a name
// of Languages and counts more than the file's. Otherwise a suffix that is
// known counts, then a "#!" line, then machine code; ".sh" leaves the choice of
// the shell to the line.
func Choose(name, lang string, head []byte, mode fs.FileMode) (Start, error) {
	line, err := interpreter(head)
	for _, l := range languages {
		if l.name != lang && (lang != "" || !slices.Contains(l.suffixes, path.Ext(name))) {
			continue
		}
		if l.byLine && lang == "" && len(line) > 0 {
			return Start{Command: line, Language: l.name}, nil
		}
		return Start{Command: l.command, Language: l.name}, nil
	}
	switch {
	case err != nil:
		return Start{}, err
	case len(line) > 0:
		return Start{Command: line}, nil
	case len(head) == 0:
		return Start{}, ErrEmpty
	case !bytes.HasPrefix(head, []byte("\x7fELF")):
		return Start{}, ErrUnknown
	case mode&0o111 == 0:
		return Start{}, ErrNotExecutable
	}
	return Start{}, nil
}

// interpreter takes a "#!" line apart as the kernel does: the interpreter, and
// all the rest as one argument. Nil means that there is no such line.
func interpreter(head []byte) ([]string, error) {
	rest, found := bytes.CutPrefix(head[:min(len(head), HeadSize)], []byte("#!"))
	if !found {
		return nil, nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	text := strings.Trim(string(line), " \t\r")
	command, argument, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if !path.IsAbs(command) || strings.ContainsRune(text, 0) {
		return nil, ErrNoInterpreter
	}
	if argument = strings.TrimSpace(argument); argument != "" {
		return []string{command, argument}, nil
	}
	return []string{command}, nil
}
