package stub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// identifier makes a name that every generated module can use: letters and
// digits stay, everything else becomes an underscore. What is a keyword, a
// builtin or a name of the modules themselves gets an underscore at its end, in
// all languages, so that a tool has the same name everywhere.
func identifier(name string) string {
	id := clean(name)
	// what begins and ends with two is the language's
	if len(id) > 4 && strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") || reserved()[id] {
		id += "_"
	}
	return id
}

// parameter makes a name for a parameter of a Python function. Builtins may be
// parameters; what the function's own text uses may not.
func parameter(name string) string {
	id := clean(name)
	if keywords()[id] || id == "_call" || id == "_acall" || id == "_optional" {
		id += "_"
	}
	return id
}

func clean(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '_', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', steady(r):
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	id := b.String()
	if id == "" || '0' <= id[0] && id[0] <= '9' {
		id = "_" + id
	}
	return id
}

// steady says whether a letter outside ASCII is one in every version of Python
// and JavaScript, and stays itself when Python normalizes names to NFKC.
func steady(r rune) bool {
	if slices.Contains(compositions, r) {
		return false
	}
	for _, in := range steadyRanges {
		if in[0] <= r && r <= in[1] {
			return true
		}
	}
	return false
}

var steadyRanges = [][2]rune{
	{0x00C0, 0x00D6}, {0x00D8, 0x00F6}, {0x00F8, 0x0131}, {0x0134, 0x013E}, {0x0141, 0x0148}, {0x014A, 0x017E}, // Latin
	{0x0388, 0x03CE},                   // Greek
	{0x0400, 0x0481}, {0x048A, 0x052F}, // Cyrillic
	{0x05D0, 0x05EA}, {0x0620, 0x064A}, // Hebrew, Arabic
	{0x0904, 0x0939},                   // Devanagari
	{0x3041, 0x3096}, {0x30A1, 0x30FA}, // Kana
	{0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}, // Han, Hangul
}

// compositions lie inside a steady range and are no letters.
var compositions = []rune{0x038B, 0x038D, 0x03A2}

// pascal makes the piece of a type's name.
func pascal(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(clean(name), "_") {
		if word != "" {
			r := []rune(word)
			b.WriteString(strings.ToUpper(string(r[:1])) + string(r[1:]))
		}
	}
	return b.String()
}

// tidy is where each identifier came from; take refuses a second source.
type tidy struct {
	what string // "tools"
	from map[string]string
	errs []error
}

func newTidy(what string) *tidy { return &tidy{what: what, from: map[string]string{}} }

func (t *tidy) take(id, source string) {
	if first, taken := t.from[id]; taken {
		t.errs = append(t.errs, fmt.Errorf("cannot tell %s %q and %q apart: both are called %s in a program; rename or leave out one of them",
			t.what, first, source, id))
		return
	}
	t.from[id] = source
}

func (t *tidy) err() error { return errors.Join(t.errs...) }

func words(lists ...string) map[string]bool {
	m := map[string]bool{}
	for _, l := range lists {
		for _, w := range strings.Fields(l) {
			m[w] = true
		}
	}
	return m
}

// keywords are Python's, and names it does not let anybody assign.
var keywords = sync.OnceValue(func() map[string]bool { return words(pythonKeywords) })

const pythonKeywords = `False None True and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try while with yield __debug__`

// reserved are the names that no tool can have in a program.
var reserved = sync.OnceValue(func() map[string]bool { return words(pythonKeywords, pythonBuiltins, scriptWords, ownNames) })

const pythonBuiltins = `abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod
	compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset
	getattr globals hasattr hash help hex id input int isinstance issubclass iter len license list locals map max
	memoryview min next object oct open ord pow print property quit range repr reversed round set setattr slice
	sorted staticmethod str sum super tuple type vars zip Ellipsis NotImplemented
	ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
	BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
	ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError Exception ExceptionGroup
	FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
	IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
	ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError
	PendingDeprecationWarning PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError
	ResourceWarning RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError
	SystemExit TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError
	UnicodeTranslateError UnicodeWarning UserWarning ValueError Warning ZeroDivisionError`

// Reserved words of JavaScript in strict mode, and names that mean something
// on a module: one that exports "then" is taken for a promise.
const scriptWords = `arguments await break case catch class const constructor continue debugger default delete do
	else enum eval export extends false finally for function if implements import in instanceof interface let new
	null package private protected prototype public return static super switch this throw true try typeof undefined
	var void while with yield then exports module require globalThis Infinity NaN __proto__
	hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf`

// What the modules define or use themselves.
const ownNames = `aio call callSync errors map search_tools searchTools types unset
	ToolError ToolDenied ToolInvalidArguments ToolTimeout ToolLimit ToolFailed BridgeClosed
	annotations Any Literal TYPE_CHECKING _HOME _MODULES _bridge _helpers _host _index _call _acall _optional _tool`
