package denial

import (
	"reflect"
	"testing"
)

func TestSince(t *testing.T) {
	early := Summary{Total: 2, Folded: 1, Events: []Event{{Call: "connect"}}, ByCall: map[string]int64{"connect": 2}, ByClass: map[string]int64{"public": 1}}
	late := Summary{Total: 5, Folded: 2, Events: []Event{{Call: "connect"}, {Call: "mount"}}, ByCall: map[string]int64{"connect": 2, "mount": 3}, ByClass: map[string]int64{"public": 1, "kind": 2}}
	want := Summary{Total: 3, Folded: 1, Events: []Event{{Call: "mount"}}, ByCall: map[string]int64{"mount": 3}, ByClass: map[string]int64{"kind": 2}}
	if got := late.Since(early); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := late.Since(late); !reflect.DeepEqual(got, Summary{}) {
		t.Errorf("nothing new gives %+v", got)
	}
}
