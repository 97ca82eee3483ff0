package plan

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/isolate-run/isolate/policy"
)

// Key identifies a policy: of two with the same key Resolve makes the same plan.
// A policy that has none has something in it that Resolve refuses.
func Key(p policy.Policy) (string, error) {
	var d digester
	d.value(reflect.ValueOf(p))
	return string(d.b), d.err
}

// digest identifies values by what encoding/json would show of them, but for
// bytes that are no UTF-8, which that writes all alike. The tables that it builds
// for each type took a thirtieth of a cold start.
func digest(parts ...any) (string, error) {
	d := digester{b: make([]byte, 0, 16<<10)}
	for _, p := range parts {
		d.value(reflect.ValueOf(p))
	}
	s := sha256.Sum256(d.b)
	return "sha256:" + hex.EncodeToString(s[:]), d.err
}

// digester writes values one after another so that no two sequences of the
// same types give the same bytes: what has a length begins with it.
type digester struct {
	b   []byte
	err error
}

func (d *digester) number(n uint64) { d.b = binary.AppendUvarint(d.b, n) }

func (d *digester) text(s string) {
	d.number(uint64(len(s)))
	d.b = append(d.b, s...)
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

func (d *digester) value(v reflect.Value) {
	if v.IsValid() && v.Type().Implements(textMarshaler) && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil && d.err == nil {
			d.err = err
		}
		d.text(string(text))
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(v.String())
	case reflect.Bool:
		if v.Bool() {
			d.number(1)
		} else {
			d.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.b = binary.AppendVarint(d.b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		d.number(math.Float64bits(v.Float()))
	case reflect.Pointer:
		if v.IsNil() {
			d.number(0)
			return
		}
		d.number(1)
		d.value(v.Elem())
	case reflect.Slice, reflect.Array:
		d.number(uint64(v.Len()))
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Map:
		d.entries(v)
	case reflect.Struct:
		d.fields(v)
	default:
		d.err = fmt.Errorf("a value of kind %v", v.Kind())
	}
}

func (d *digester) fields(v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			d.value(v.Field(i))
		}
	}
}

// entries writes a map in the order of its keys' bytes.
func (d *digester) entries(v reflect.Value) {
	var list []string
	for key, value := range v.Seq2() {
		e := digester{}
		e.value(key)
		e.value(value)
		list = append(list, string(e.b))
		if d.err == nil {
			d.err = e.err
		}
	}
	slices.Sort(list)
	d.number(uint64(len(list)))
	for _, e := range list {
		d.text(e)
	}
}
