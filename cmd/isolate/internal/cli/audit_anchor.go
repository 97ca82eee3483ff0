package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/audit"
)

const (
	// anchorWait bounds how long an anchor may take to answer.
	anchorWait = 10 * time.Second
	// maxAnchor bounds what it may answer, in bytes.
	maxAnchor = 64 << 10
	// commandPrefix begins an anchor that is a command of the shell.
	commandPrefix = "cmd:"
)

// anchor is what --anchor and --audit-anchor name: a URL, a command, a file.
func (a *app) anchor(text string) audit.Anchor {
	switch {
	case strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://"):
		return urlAnchor(text)
	case strings.HasPrefix(text, commandPrefix):
		return commandAnchor(strings.TrimPrefix(text, commandPrefix))
	}
	if path, err := a.abs(text); err == nil {
		text = path
	}
	return audit.FileAnchor(text)
}

// recaller is an anchor that can be asked only as long as somebody waits.
type recaller interface {
	audit.Anchor
	recall(context.Context) ([]byte, error)
}

// awaited is an anchor that is asked what it remembers until ctx ends. What it is
// to remember, it is given to the end: that is of a run that has been.
type awaited struct {
	recaller
	ctx context.Context
}

func (w awaited) Recall() ([]byte, error) { return w.recall(w.ctx) }

// urlAnchor remembers by POST and recalls by GET.
type urlAnchor string

var _ recaller = urlAnchor("")

func (u urlAnchor) Remember(msg []byte) error {
	_, err := u.do(context.Background(), http.MethodPost, msg)
	return err
}

// Recall takes 404 for "nothing yet".
func (u urlAnchor) Recall() ([]byte, error) { return u.recall(context.Background()) }

func (u urlAnchor) recall(ctx context.Context) ([]byte, error) { return u.do(ctx, http.MethodGet, nil) }

func (u urlAnchor) do(ctx context.Context, method string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, string(u), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("cannot use anchor: %w", err)
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot reach anchor: %w", err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnchor+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read anchor: %w", err)
	case method == http.MethodGet && resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("cannot use anchor %q: it answers %s", string(u), resp.Status)
	case len(b) > maxAnchor:
		return nil, fmt.Errorf("cannot use anchor %q: it answers more than %d bytes", string(u), maxAnchor)
	}
	return b, nil
}

// commandAnchor is a command of the shell that is called with "remember" and
// the checkpoint on standard input, or with "recall" and prints it.
type commandAnchor string

var _ recaller = commandAnchor("")

func (c commandAnchor) Remember(msg []byte) error {
	_, err := c.do(context.Background(), "remember", msg)
	return err
}

func (c commandAnchor) Recall() ([]byte, error) { return c.recall(context.Background()) }

func (c commandAnchor) recall(ctx context.Context) ([]byte, error) {
	b, err := c.do(ctx, "recall", nil)
	if len(bytes.TrimSpace(b)) == 0 {
		b = nil
	}
	return b, err
}

func (c commandAnchor) do(parent context.Context, verb string, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(parent, anchorWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", string(c)+` "$@"`, "sh", verb)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	cmd.WaitDelay = time.Second
	if parent.Done() != nil { // then a signal is for us to pass on: what the shell has started ends, too
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	out := &bounded{}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot %s by anchor command: %w", verb, errors.Join(err, ctx.Err()))
	}
	return out.b, nil
}

// bounded keeps what is written, up to maxAnchor.
type bounded struct{ b []byte }

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > maxAnchor {
		return 0, fmt.Errorf("it prints more than %d bytes", maxAnchor)
	}
	b.b = append(b.b, p...)
	return len(p), nil
}
