package isolate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// A program of a kept sandbox may be given less time than its policy gives, and
// never more; the sandbox stays.
func TestWallOfAProgram(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	r := openWithoutSpares(t)
	s, err := r.Sandbox(t.Context(), policy.Policy{Wall: time.Hour, Allow: policy.Weakenings})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"sleep", "600"}, Wall: 200 * time.Millisecond})
	if err != nil || res.Reason != isolate.ReasonWall || !strings.HasSuffix(res.Detail, "limit of 200ms") {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"true"}, Wall: time.Hour}); err != nil || res.Reason != isolate.ReasonExit {
		t.Errorf("after it: %+v, %v", res, err)
	}
	for _, wall := range []time.Duration{-1, time.Hour + 1} {
		var refused *plan.Refusal
		if res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"true"}, Wall: wall}); !errors.As(err, &refused) {
			t.Errorf("%v: %+v, %v", wall, res, err)
		}
	}
}
