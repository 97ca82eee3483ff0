package cli

import (
	"errors"
	"io"
	"os"
	"sync"
)

// input is our standard input as a program is given it. The program sees its
// end, whatever ended it; a person is told if that was an error.
type input struct {
	from io.Reader

	mu     sync.Mutex
	failed error
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.from.Read(p)
	// that we closed it ourselves is no error of who gave it to us
	if err != nil && err != io.EOF && !errors.Is(err, os.ErrClosed) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.failed, err = err, io.EOF // a request to the server is not to be broken off
	}
	return n, err
}

// trouble says why the program has seen less than there was; empty if it has not.
func (in *input) trouble() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.failed == nil {
		return ""
	}
	return inputUnread(in.failed)
}
