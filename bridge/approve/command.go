package approve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
	"github.com/isolate-run/isolate/internal/procgroup"
)

// Command asks a program of the host, once per question: the Question as JSON
// on its standard input, the decision as JSON on its standard output:
//
//	{"decision": "allow" | "deny", "for": N, "args": {…}, "by": NAME, "reason": TEXT}
//
// All but decision is optional. An exit code other than 0 is an error, and so a
// no. The program is run directly, in a process group of its own that is killed
// when the wait is over, without a terminal.
type Command struct {
	// Path is the program's file, relative to Dir; a name without a slash is
	// looked for in the PATH of Env. Required.
	Path string
	// Args come after the name.
	Args []string
	// Dir is the working directory, absolute. Required.
	Dir string
	// Env is the whole environment as "NAME=VALUE".
	Env []string
}

// NewCommand checks that the program is there.
func NewCommand(c Command) (bridge.Approver, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("cannot use approval command %q: its working directory %q is not absolute", c.Path, c.Dir)
	}
	file, err := procgroup.Find(c.Path, c.Dir, c.Env)
	if err != nil {
		return nil, fmt.Errorf("cannot use approval command: %w", err)
	}
	return Func(func(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
		body, err := json.Marshal(q)
		if err != nil {
			return bridge.Decision{}, fmt.Errorf("cannot write the question: %w", err)
		}
		out, err := c.ask(ctx, file, body)
		if err != nil {
			return bridge.Decision{}, err
		}
		return decode("command", out)
	}), nil
}

// ask runs the program and returns what it printed.
func (c Command) ask(ctx context.Context, file string, body []byte) ([]byte, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer inW.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer outR.Close()
	group, err := procgroup.Start(procgroup.Command{Path: file, Args: c.Args, Dir: c.Dir, Env: c.Env, Stdin: inR, Stdout: outW})
	inR.Close()
	outW.Close()
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, group.Kill)()
	written := make(chan struct{})
	go func() {
		_, _ = inW.Write(body) // it need not read the question
		inW.Close()
		close(written)
	}()
	read := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(outR, MaxReply+1))
		if len(b) > MaxReply {
			group.Kill()
		}
		read <- b
	}()
	state, err := group.Wait()
	// Who left the process group may hold the pipes; nobody waits for that.
	_ = inW.SetWriteDeadline(time.Now())
	_ = outR.SetReadDeadline(time.Now().Add(drainTime))
	<-written
	out := <-read
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("cannot wait for the approval command: %w", ctx.Err())
	case err != nil:
		return nil, err
	case len(out) > MaxReply:
		return out, nil // decode says so
	case !state.Success():
		return nil, fmt.Errorf("cannot use the approval command's answer: it ended with %s", plaintext.Clean(state.String(), maxText))
	}
	return out, nil
}

// drainTime is how long an answer may still come once the command has ended.
const drainTime = 250 * time.Millisecond
