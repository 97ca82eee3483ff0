package programs

import (
	"io"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// The kernel has one stock of terminals for all sandboxes. One that takes all
// it can leaves the others theirs; found by script(1) that failed while
// another sandbox held 3072.
func TestTerminalsAreBounded(t *testing.T) {
	testenv.Require(t, testenv.Tool("python3"))
	l := newLab(t)
	told, says := io.Pipe()
	wait, release := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := l.Run(t.Context(), isolate.Policy{Wall: patience}, isolate.Cmd{
			Args: python("hoarder.py"), In: []isolate.Input{{Source: "testdata/hoarder.py"}},
			Stdin: wait, Stdout: says,
		})
		says.CloseWithError(io.ErrUnexpectedEOF)
		done <- err
	}()
	line := make([]byte, 100)
	n, err := told.Read(line)
	if got, want := string(line[:n]), "48 No space left on device\n"; err != nil || got != want {
		t.Errorf("the hoarder says %q, %v; want %q", got, err, want)
	}
	res, err := l.Run(t.Context(), isolate.Policy{}, isolate.Cmd{
		Args: []string{"/usr/bin/python3", "-c", "import os; print(len(os.openpty()))"},
	})
	if got := string(res.Stdout.Kept); err != nil || got != "2\n" {
		t.Errorf("another sandbox gets no terminal: %q, %v: %s", got, err, res.Stderr.Kept)
	}
	release.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
