package plan

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
	"github.com/isolate-run/isolate/policy"
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

// impliedBy are the fields that no digest has, by those that stand for them.
var impliedBy = map[string]string{
	"plan.Plan.Filter": "FilterDigest", "rootfs.Op.Content": "Digest", "plan.Rlimit.Resource": "Name",
}

// No type of a plan or a policy has a part that a digest would pass over.
func TestDigestKnowsEachType(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(path string, of reflect.Type)
	look = func(path string, of reflect.Type) {
		if of.Implements(textMarshaler) || seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(path, of.Elem())
		case reflect.Map:
			look(path, of.Key())
			look(path, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				f := of.Field(i)
				name := of.String() + "." + f.Name
				switch {
				case f.IsExported() && f.Tag.Get("json") != "-":
					look(name, f.Type)
				case impliedBy[name] == "":
					t.Errorf("no digest has %s", name)
				default:
					if by, there := of.FieldByName(impliedBy[name]); !there || by.Tag.Get("json") == "-" {
						t.Errorf("%s does not stand for %s", impliedBy[name], name)
					}
				}
			}
		case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
			t.Errorf("%s is a %v", path, of.Kind())
		}
	}
	look("", reflect.TypeFor[Plan]())
	look("", reflect.TypeFor[policy.Policy]())
}

// Values that encoding/json writes as the same text are not the same: bytes that
// are no UTF-8 become U+FFFD, each of them.
func TestKeyKeepsApart(t *testing.T) {
	seen := map[string]int{}
	for i, p := range []policy.Policy{
		{}, {Env: map[string]string{"A": "\xff"}}, {Env: map[string]string{"A": "\xfe"}}, {Env: map[string]string{"A": "\uFFFD"}},
		{CPUs: math.NaN()}, {CPUs: math.Inf(1)}, {Memory: 1 << 30}, {Disk: 1 << 30}, {Allow: []policy.Weakening{policy.WeakLimits}},
		{Net: egress.Policy{Mode: egress.ModeFull}},
	} {
		key, err := Key(p)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%d has the key of %d", i, other)
		}
		seen[key] = i
	}
	if _, err := Key(policy.Policy{Profile: 99}); err == nil {
		t.Error("a policy of a profile that there is not has a key")
	}
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
