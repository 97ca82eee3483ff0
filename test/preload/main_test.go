package preload_test

import (
	"os"
	"testing"

	"github.com/isolate-run/isolate"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}
