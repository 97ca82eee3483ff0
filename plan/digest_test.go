package plan

import (
	"reflect"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/preload"
	"github.com/isolate-run/isolate/rootfs"
)

// Each part of a plan makes a difference: what is set, one at a time, from the
// same plan with nothing else.
func TestDigestSeesEachPart(t *testing.T) {
	seen := map[string]string{}
	parts := 0
	compare := func(path string, plan any) {
		got, err := digest(plan)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the digest of %s", path, other)
		}
		seen[got] = path
		parts++
	}
	p := Plan{
		NetPolicy: &egress.Policy{}, Preload: &preload.Spec{},
		View: rootfs.View{Stages: make([]rootfs.Stage, 1), Ops: make([]rootfs.Op, 1)},
	}
	compare("nothing", p)
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(1)
		case reflect.Float64:
			v.SetFloat(0.5)
		case reflect.Slice:
			for i := range v.Len() {
				walk(path+"[]", v.Index(i))
			}
			v.Set(reflect.MakeSlice(v.Type(), v.Len()+1, v.Len()+1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		case reflect.Pointer:
			if !v.IsNil() {
				walk(path, v.Elem())
				return
			}
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Struct:
			if v.Type().Implements(textMarshaler) {
				return
			}
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
					walk(path+"."+f.Name, v.Field(i))
				}
			}
			return
		default:
			t.Fatalf("%s is a %v", path, v.Kind())
		}
		compare(path, p)
		v.Set(old)
	}
	walk("", reflect.ValueOf(&p).Elem())
	if parts < 50 {
		t.Errorf("only %d parts were looked at", parts)
	}
	t.Logf("%d parts", parts)
}

// What is written one after another cannot be taken for something else.
func TestDigestKeepsApart(t *testing.T) {
	now := time.Now()
	var none *int
	seen := map[string]int{}
	for i, parts := range [][]any{
		{"ab", "c"}, {"a", "bc"}, {"abc"}, {[]string{"a"}, []string{}}, {[]string{}, []string{"a"}}, {[]string{"a", ""}},
		{none}, {new(int)}, {map[string]int{"a": 1}}, {map[string]int{"a": 2}}, {map[string]int{"b": 1}}, {now}, {now.Add(1)},
	} {
		got, err := digest(parts...)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%d has the digest of %d", i, other)
		}
		seen[got] = i
	}
	many := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	first, _ := digest(many)
	for range 20 {
		if again, _ := digest(many); again != first {
			t.Fatal("the digest of a map changes")
		}
	}
	if _, err := digest(func() {}); err == nil {
		t.Error("a function has a digest")
	}
}
