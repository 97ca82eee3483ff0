// Package command makes a tool of a program of the host: JSON arguments on its
// standard input, one JSON value on its standard output.
//
// The program is run directly, without a shell, once per call, in a session and
// process group of its own, and the group is killed at the time limit, when the
// call is cancelled, and when the program itself has ended (what escapes is
// told in internal/procgroup). Its environment is PATH, HOME, LANG, what the
// caller names, and the place in a trace (TRACEPARENT, TRACESTATE) that the call
// has, if any. It has all rights of whoever runs isolate: it is one of the
// host's programs, not one of the sandbox's.
//
// An exit code other than 0 is a failure. A program that fails on purpose may
// say how: by exit code 10 to 14, the classes of package bridge in order, and
// by {"error": {"code": CODE, "message": TEXT, "details": …}} on standard
// output. What it writes to standard error never reaches the program in the
// sandbox; its end is kept for the record of a failed call.
//
// Kernel: as internal/procgroup.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/procgroup"
	"github.com/isolate-run/isolate/internal/tracecontext"
)

const (
	// DefaultOutputBytes bounds what a command prints. It is above the limit of
	// an answer (bridge.DefaultResponseBytes), because a bigger result may
	// become a file, and four of them in memory are no burden.
	DefaultOutputBytes = 32 << 20
	// stderrBytes of the end of standard error are kept for the record.
	stderrBytes = 4 << 10
	// drainTime is how long output may still come once the command and its
	// group have ended: only a process that left the group can write then.
	drainTime = 250 * time.Millisecond
)

// Program is what is run for each call.
type Program struct {
	// Path is the program's file, relative to Dir; a name without a slash is
	// looked for in the PATH of Env. Required.
	Path string
	// Args come after the name.
	Args []string
	// Dir is the working directory, absolute. Required.
	Dir string
	// Env is the whole environment as "NAME=VALUE"; see BaseEnv.
	Env []string
	// OutputBytes bounds the standard output of a call. Zero means
	// DefaultOutputBytes.
	OutputBytes int64
}

// BaseEnv picks PATH, HOME and LANG from an environment: what a tool gets that
// names nothing else.
func BaseEnv(environ []string) []string { return procgroup.BaseEnv(environ) }

// New makes the tool. It sets Run, and Source if that is empty, of t.
func New(t bridge.Tool, p Program) (bridge.Tool, error) {
	if !filepath.IsAbs(p.Dir) {
		return t, fmt.Errorf("cannot make tool %q: its working directory %q is not absolute", t.Name, p.Dir)
	}
	file, err := procgroup.Find(p.Path, p.Dir, p.Env)
	if err != nil {
		return t, fmt.Errorf("cannot make tool %q: %w", t.Name, err)
	}
	if t.Source == "" {
		t.Source = "command " + p.Path
	}
	if p.OutputBytes == 0 {
		p.OutputBytes = DefaultOutputBytes
	}
	p.Args, p.Env = slices.Clone(p.Args), slices.Clone(p.Env)
	t.Run = func(ctx context.Context, c bridge.Call) (bridge.Reply, error) { return p.run(ctx, file, c) }
	return t, nil
}

// run is one call.
func (p Program) run(ctx context.Context, file string, c bridge.Call) (bridge.Reply, error) {
	pipes, err := openPipes()
	if err != nil {
		return bridge.Reply{}, err
	}
	defer pipes.close()
	group, err := procgroup.Start(procgroup.Command{
		Path: file, Args: p.Args, Dir: p.Dir, Env: traced(ctx, p.Env),
		Stdin: pipes.theirs[0], Stdout: pipes.theirs[1], Stderr: pipes.theirs[2],
	})
	pipes.closeTheirs()
	if err != nil {
		return bridge.Reply{}, failed("the command cannot be started", nil, err.Error())
	}
	stop := context.AfterFunc(ctx, group.Kill)
	defer stop()
	flows := pipes.flow(c.Args, p.OutputBytes, group.Kill)
	state, waitErr := group.Wait()
	pipes.expire()
	out, stderr, tooMuch := flows()
	switch {
	case ctx.Err() != nil:
		return bridge.Reply{}, ctx.Err()
	case waitErr != nil:
		return bridge.Reply{}, waitErr
	case tooMuch:
		return bridge.Reply{}, tooLarge(p.OutputBytes, stderr)
	case !state.Success():
		return bridge.Reply{}, unsuccessful(state, out, stderr)
	}
	value, err := oneValue(out)
	if err != nil {
		return bridge.Reply{}, badResult(err, out, stderr)
	}
	return bridge.Reply{Value: value}, nil
}

// traced is the environment with the place in a trace that the context has. What
// the author has set stays.
func traced(ctx context.Context, env []string) []string {
	more := tracecontext.Of(ctx).Environ()
	if more == nil || slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, tracecontext.ParentVariable+"=") }) {
		return env
	}
	return append(slices.Clone(env), more...)
}

// oneValue checks that out is one JSON value and nothing else.
func oneValue(out []byte) (json.RawMessage, error) {
	out = bytes.TrimSpace(out)
	switch {
	case len(out) == 0:
		return nil, errors.New("it printed nothing")
	case !utf8.Valid(out):
		return nil, errors.New("what it printed is not UTF-8")
	case !json.Valid(out):
		return nil, errors.New("what it printed is not one JSON value")
	}
	return out, nil
}

// pipes are the three streams of a command; ours are the host's ends.
type pipes struct{ ours, theirs [3]*os.File }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for i := range p.ours {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			p.closeTheirs()
			return nil, fmt.Errorf("cannot make a pipe: %w", err)
		}
		p.ours[i], p.theirs[i] = r, w
	}
	p.ours[0], p.theirs[0] = p.theirs[0], p.ours[0] // standard input goes the other way
	return p, nil
}

// close and closeTheirs close one end each; nil and closed files are no matter.
func (p *pipes) close() {
	for _, f := range p.ours {
		f.Close()
	}
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
}

// expire ends the flows soon, whoever else may hold the pipes.
func (p *pipes) expire() {
	soon := time.Now().Add(drainTime)
	_ = p.ours[0].SetWriteDeadline(time.Now())
	_ = p.ours[1].SetReadDeadline(soon)
	_ = p.ours[2].SetReadDeadline(soon)
}

// flow moves the bytes; the function it returns waits for that and says what
// came. More than limit bytes of output call enough and are thrown away.
func (p *pipes) flow(args []byte, limit int64, enough func()) func() (out, stderr []byte, tooMuch bool) {
	var output bytes.Buffer
	kept := tail{limit: stderrBytes}
	over := false
	done := make(chan struct{}, 3)
	go func() {
		// The command need not read its arguments.
		_, _ = p.ours[0].Write(args)
		p.ours[0].Close()
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(&output, io.LimitReader(p.ours[1], limit+1))
		if over = int64(output.Len()) > limit; over {
			enough()
		}
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(&kept, p.ours[2])
		done <- struct{}{}
	}()
	return func() ([]byte, []byte, bool) {
		for range cap(done) {
			<-done
		}
		return output.Bytes(), kept.bytes, over
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	bytes []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p[max(0, len(p)-t.limit):]...)
	if more := len(t.bytes) - t.limit; more > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[more:]...)
	}
	return len(p), nil
}
