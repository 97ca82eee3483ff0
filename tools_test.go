package isolate_test

import (
	"slices"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/stub"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// The plan names the places of the bridge in words of its own, because it must
// not know package bridge: here they are compared.
func TestBridgePlaces(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Memory, testenv.PIDs)
	r, err := isolate.Open(t.Context(), isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := r.Plan(t.Context(), isolate.Policy{
		Bridge: policy.FileBridge, Env: map[string]string{"PYTHONPATH": "/mine", "PATH": "/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sdk := bridge.Dir + "/" + bridge.SDKDir + "/"
	for _, want := range []string{
		"ISOLATE_BRIDGE=" + bridge.Dir, "PYTHONPATH=" + sdk + stub.PythonPath + ":/mine",
		"NODE_PATH=" + sdk + stub.NodePath, "PATH=" + sdk + stub.BinPath + ":/bin",
	} {
		if !slices.Contains(p.Env, want) {
			t.Errorf("%q is not in the environment %q", want, p.Env)
		}
	}
	without, err := r.Plan(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if without.Bridge || without.Digest == p.Digest || slices.ContainsFunc(without.Env, func(s string) bool { return s == "ISOLATE_BRIDGE="+bridge.Dir }) {
		t.Errorf("a plan without tools has the bridge: %+v", without)
	}
}
