package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
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

// WithSchema fills what is empty in t from a schema file. That is either
//
//	{"description": TEXT, "input": SCHEMA, "output": SCHEMA, "read_only": true}
//
// of which all is optional and nothing else is allowed, or the schema of the
// arguments itself, whose description is then the tool's. The name is for the
// error.
func WithSchema(t bridge.Tool, name string, data []byte) (bridge.Tool, error) {
	fail := func(cause error) (bridge.Tool, error) {
		return t, fmt.Errorf("cannot read schema %q of tool %q: %w", name, t.Name, cause)
	}
	if len(data) > MaxSchemaBytes {
		return fail(fmt.Errorf("it has more than %d bytes", MaxSchemaBytes))
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil || keys == nil {
		return fail(errors.Join(errors.New("it is no JSON object"), err))
	}
	var file struct {
		Description string             `json:"description"`
		Input       *jsonschema.Schema `json:"input"`
		Output      *jsonschema.Schema `json:"output"`
		ReadOnly    bool               `json:"read_only"`
	}
	if !isToolForm(keys) {
		file.Input = &jsonschema.Schema{}
		if err := json.Unmarshal(data, file.Input); err != nil {
			return fail(err)
		}
		file.Description = file.Input.Description
	} else if err := decodeStrictly(data, &file); err != nil {
		return fail(err)
	}
	if t.Description == "" {
		t.Description = file.Description
	}
	if t.Input == nil {
		t.Input = file.Input
	}
	if t.Output == nil {
		t.Output = file.Output
	}
	if file.ReadOnly {
		t.Effect = bridge.ReadOnly
	}
	return t, nil
}

// isToolForm tells the two forms apart: a schema has none of these keywords.
func isToolForm(keys map[string]json.RawMessage) bool {
	for _, k := range []string{"input", "output", "read_only"} {
		if _, ok := keys[k]; ok {
			return true
		}
	}
	return false
}

func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
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
