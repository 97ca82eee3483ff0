package main

import (
	"os"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMain(m *testing.M) {
	isolate.Init()
	os.Exit(m.Run())
}

// C1: three invoices, the EU ones summed, four calls.
func TestInvoices(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Cgroup, testenv.Python3)
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = "RESULT: 1950\nended by exit, answer \"1950\", 4 calls\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestRootInvoices is the same for root, whose sandboxes have another id.
func TestRootInvoices(t *testing.T) {
	testenv.Require(t, testenv.Root)
	TestInvoices(t)
}
