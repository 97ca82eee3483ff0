package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/bridge"
)

// MaxSchemaBytes is the size of the largest schema file.
const MaxSchemaBytes = 256 << 10

// ReadSchema reads a schema file, and a byte more than it may have. What is no
// regular file is refused: a FIFO would hold up whoever reads it.
func ReadSchema(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, MaxSchemaBytes+1))
}

// WithSchema fills what is empty in t from a schema file, in one of these
// forms, of which every field but the first is optional:
//
//	{"input": SCHEMA, "output": SCHEMA, "description": TEXT, "read_only": true}
//	{"inputSchema": SCHEMA, "outputSchema": SCHEMA, "name", "description", …}   as MCP lists a tool
//	{"input_schema": SCHEMA, "name", "description", …}                          as Anthropic's API takes one
//	{"type": "function", "function": {"parameters": SCHEMA, "name", …}}         as OpenAI's API does
//
// or the schema of the arguments itself, whose description is then the tool's.
// A name in the file does not count. Nothing unknown is taken, neither in the
// file nor in the schemas, where a misspelt keyword would check nothing: only
// keywords that begin with "x-" are free. The name is for the error.
func WithSchema(t bridge.Tool, name string, data []byte) (bridge.Tool, error) {
	d, err := readDescription(data)
	if err != nil {
		return t, fmt.Errorf("cannot read schema %q of tool %q: %w", name, t.Name, err)
	}
	if t.Description == "" {
		t.Description = d.text
	}
	if t.Input == nil {
		t.Input = d.input
	}
	if t.Output == nil {
		t.Output = d.output
	}
	if d.readOnly {
		t.Effect = bridge.ReadOnly
	}
	return t, nil
}

// Flag is what a command line says about a tool.
type Flag struct {
	Name string
	// Path is the program; it has no arguments here.
	Path string
	// Schema is the schema file; empty means none.
	Schema string
}

// ParseFlag reads "NAME=PATH" or "NAME=PATH,schema=FILE".
func ParseFlag(text string) (Flag, error) {
	name, path, ok := strings.Cut(text, "=")
	path, schema, hasSchema := strings.Cut(path, ",schema=")
	if !ok || name == "" || path == "" || hasSchema && schema == "" {
		return Flag{}, fmt.Errorf("cannot read tool %q: write NAME=PATH or NAME=PATH,schema=FILE, such as get_invoice=./get_invoice.py", text)
	}
	return Flag{name, path, schema}, nil
}
