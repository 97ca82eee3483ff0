//go:build isolate_weak

package prove

import (
	"encoding/binary"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
)

// TestWeakenedPlan: with a plan whose filter lets everything pass the same
// demonstration fails, although the namespaces still hold.
func testWeakenedPlan(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	allow := binary.NativeEndian.AppendUint16(nil, 0x06)                      // BPF_RET | BPF_K
	allow = binary.NativeEndian.AppendUint32(append(allow, 0, 0), 0x7fff0000) // SECCOMP_RET_ALLOW
	isolate.Weaken = func(p plan.Plan) plan.Plan {
		p.Filter, p.FilterDigest, p.Digest = allow, "sha256:weak", "sha256:weak"
		return p
	}
	defer func() { isolate.Weaken = nil }()
	r := demonstrate(t, open(t))
	v := verdicts(r)
	if r.Held {
		t.Error("held under a plan without a filter")
	}
	for name, want := range map[string]Verdict{
		"netlink": Leak, "the host's TCP": Held, "TCP": Unrecorded, "metadata service": Unrecorded, "mount": Unexpected, "tool call": Held,
	} {
		if v[name] != want {
			t.Errorf("%s: %s, want %s", name, v[name], want)
		}
	}
}

func TestWeakenedPlan(t *testing.T)     { testWeakenedPlan(t) }
func TestRootWeakenedPlan(t *testing.T) { testenv.Require(t, testenv.Root); testWeakenedPlan(t) }
