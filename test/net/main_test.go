// Package net tests the network of sandboxes from the outside: real programs in
// a real sandbox, against names and hosts in a network namespace of the test's
// own (test/net/bed).
package net

import (
	"fmt"
	"os"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress/netd"
)

func TestMain(m *testing.M) {
	switch netd.Init() {
	case netd.Done:
		os.Exit(0)
	case netd.Failed:
		os.Exit(1)
	}
	if code, ordered := runOrder(); ordered {
		os.Exit(code)
	}
	if dir := os.Getenv("ISOLATE_WORLD"); dir != "" {
		fmt.Println(serveWorld(dir))
		os.Exit(1)
	}
	isolate.Init()
	os.Exit(m.Run())
}
