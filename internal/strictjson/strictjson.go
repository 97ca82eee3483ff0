// Package strictjson reads JSON that has one reading. The library takes the last
// of two equal names and fields whatever their case; another reader of the same
// bytes, such as one that checks or records them, may take them otherwise.
//
// It knows no formats and bounds nothing. It needs no kernel.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Decode reads exactly one value into v, which is a pointer. Fields that v does
// not have, names in another case and names that stand twice are errors.
func Decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after it")
	}
	if name, twice := Twice(data); twice {
		return fmt.Errorf("the name %q stands twice in one object", name)
	}
	return exact(data, reflect.TypeOf(v))
}

// exact compares the names of objects with those of the fields they were read
// into.
func exact(data json.RawMessage, t reflect.Type) error {
	if t.Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return exact(data, t.Elem())
	case reflect.Slice, reflect.Array:
		if !compound(t.Elem()) {
			return nil
		}
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, e := range list {
			if err := exact(e, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		if !compound(t.Elem()) {
			return nil
		}
	case reflect.Struct:
	default:
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if t.Kind() == reflect.Map {
		for _, e := range object {
			if err := exact(e, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if e, is := object[name]; is && f.IsExported() {
			if err := exact(e, f.Type); err != nil {
				return err
			}
			delete(object, name)
		}
	}
	for name := range object {
		return fmt.Errorf("unknown field %q: the case of names counts", name)
	}
	return nil
}

// compound says whether a value of t may have fields within.
func compound(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		return true
	}
	return false
}

// few is how many names of an object are compared one by one.
const few = 16

// names are those of one object.
type names struct {
	list [][]byte
	set  map[string]bool // in place of the list, once it is long
}

// add returns false if the name is there.
func (n *names) add(name []byte) bool {
	if n.set != nil {
		if n.set[string(name)] {
			return false
		}
		n.set[string(name)] = true
		return true
	}
	for _, other := range n.list {
		if bytes.Equal(other, name) {
			return false
		}
	}
	n.list = append(n.list, name)
	if len(n.list) > few {
		n.set = make(map[string]bool, 2*few)
		for _, other := range n.list {
			n.set[string(other)] = true
		}
	}
	return true
}

// Twice finds a name that stands twice in one object, at any depth. Of what is
// not JSON it finds anything or nothing.
func Twice(data []byte) (name string, twice bool) {
	var stack []names // of the objects and lists around; those beyond its length are used again
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if len(stack) == cap(stack) {
				stack = append(stack, names{})
				continue
			}
			stack = stack[:len(stack)+1]
			in := &stack[len(stack)-1]
			in.list, in.set = in.list[:0], nil
		case '}', ']':
			stack = stack[:max(len(stack)-1, 0)]
		case '"':
			end := textEnd(data, i)
			text := data[i:end]
			i = end - 1
			if !isName(data[end:]) || len(stack) == 0 {
				continue
			}
			if text = plain(text); !stack[len(stack)-1].add(text) {
				return string(text), true
			}
		}
	}
	return "", false
}

// textEnd is where the string that begins at begin is over.
func textEnd(data []byte, begin int) int {
	for i := begin + 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// isName says whether a string before rest was a name.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}

// plain is a string without its quotes and escapes, as the library reads it.
func plain(text []byte) []byte {
	inner := bytes.Trim(text, `"`)
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return inner
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return inner
	}
	return []byte(s)
}
