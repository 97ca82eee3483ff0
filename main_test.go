package isolate_test

import (
	"os"
	"testing"

	"github.com/isolate-run/isolate"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// openWithoutSpares opens a Runtime that makes nothing ahead. At the test's end
// it is closed, which must succeed.
func openWithoutSpares(t *testing.T) *isolate.Runtime {
	t.Helper()
	r, err := isolate.Open(t.Context(), isolate.Options{Spares: isolate.NoSpares})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
