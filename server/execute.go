package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/policy"
)

// peerKey is where a request's context has the peer.
type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	if r, ok := c.(*resumed); ok {
		return context.WithValue(ctx, peerKey{}, r.who)
	}
	return ctx
}

// input is the open standard input of a run.
type input struct {
	mu sync.Mutex // one request writes at a time
	w  *io.PipeWriter
}

func (s *Server) postRun(w http.ResponseWriter, r *http.Request) error {
	var q client.RunRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	p, err := policy.Decode("policy", []byte(q.Policy))
	if err != nil {
		return err
	}
	// a policy that cannot be is told before there is an answer to go on with
	if _, err := s.options.Runtime.Plan(r.Context(), p); err != nil {
		return err
	}
	return s.execute(w, r, q, "", func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
		return s.options.Runtime.Run(ctx, p, c)
	})
}

func (s *Server) postSandboxRun(w http.ResponseWriter, r *http.Request) error {
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	var q client.RunRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Policy != "" || len(q.In) > 0 || q.Out != "" || q.Detach {
		return failed(http.StatusBadRequest, "cannot run in a kept sandbox: policy, in, out and detach are for runs with a sandbox of their own", "make the sandbox with the policy, and get and put its files")
	}
	return s.execute(w, r, q, k.id, func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
		res, err := k.sandbox.Run(ctx, c)
		if err != nil && !s.kept.has(k) { // it was ended since it was found
			err = errNoSandbox(k.id)
		}
		return res, err
	})
}

// execute runs a program and answers with its events, or with its name alone
// if it is to go on without the request.
func (s *Server) execute(w http.ResponseWriter, r *http.Request, q client.RunRequest, sandbox string, do func(context.Context, isolate.Cmd) (isolate.Result, error)) error {
	if len(q.Args) == 0 {
		return failed(http.StatusBadRequest, "cannot run: there is no program", "name one in args")
	}
	if err := hostPaths(q.In, q.Out); err != nil {
		return err
	}
	wall, err := timeOf(q)
	if err != nil {
		return err
	}
	parent := r.Context()
	if q.Detach {
		parent = traced(s.ctx, r)
	}
	ctx, cancel := context.WithCancelCause(parent)
	who, _ := r.Context().Value(peerKey{}).(peer)
	one := &run{way: runHTTP, pid: who.pid, args: q.Args, sandbox: sandbox, cancel: cancel, log: newTail()}
	cmd := command(q, one)
	cmd.Wall = wall
	if s.runs.add(one) == nil {
		cancel(nil)
		return failed(http.StatusServiceUnavailable, "cannot run: the server is ending", "ask again when it has started anew")
	}
	finish := func() {
		res, err := do(ctx, cmd)
		if err != nil && res.Reason == isolate.ReasonCancelled {
			res.ExitCode, err = client.ExitRefused, nil // it was ended before there was a program
		}
		one.finished(res, err)
		if one.input != nil {
			one.input.w.CloseWithError(io.ErrClosedPipe)
		}
		one.log.end()
		cancel(nil)
		s.runs.end(one)
	}
	if q.Detach {
		go finish() // runs.wait waits for it
		return answer(w, http.StatusAccepted, one.describe())
	}
	out := newEvents(w)
	out.send(client.Event{Type: client.EventStarted, ID: one.id})
	cmd.Stdout = io.MultiWriter(out.stream(client.EventStdout), cmd.Stdout)
	cmd.Stderr = io.MultiWriter(out.stream(client.EventStderr), cmd.Stderr)
	finish()
	out.send(one.last())
	return nil
}

// hostPaths refuses paths of the host that are relative: they would begin where
// the server was started, which the caller does not know.
func hostPaths(in []client.Input, out string) error {
	paths := []string{out}
	for _, i := range in {
		paths = append(paths, i.Source)
	}
	for _, p := range paths {
		if p != "" && !filepath.IsAbs(p) {
			return failed(http.StatusBadRequest, fmt.Sprintf("cannot use path %q: it is relative, and nobody knows to what", p), "write the path of the host from the root on")
		}
	}
	return nil
}

// timeOf is the time limit of a request; zero is the policy's.
func timeOf(q client.RunRequest) (time.Duration, error) {
	if q.Time == "" {
		return 0, nil
	}
	d, err := policy.ParseDuration(q.Time)
	var wrong policy.Problem
	if errors.As(err, &wrong) {
		return 0, failed(http.StatusBadRequest, "cannot use time: "+wrong.What, wrong.Hint)
	}
	return d, err
}

// command is the command of a request, with its output going to the log.
func command(q client.RunRequest, one *run) isolate.Cmd {
	c := isolate.Cmd{
		Args: q.Args, Env: q.Env, Dir: q.Dir, Out: q.Out, Started: one.started,
		Stdout: one.log.stream(client.EventStdout), Stderr: one.log.stream(client.EventStderr),
	}
	c.In = inputs(q.In)
	if q.Input != nil {
		c.Stdin = bytes.NewReader(q.Input)
	}
	if q.OpenInput {
		read, write := io.Pipe()
		one.input = &input{w: write}
		c.Stdin = io.MultiReader(bytes.NewReader(q.Input), read)
	}
	return c
}

// last is the event that ends the answer.
func (r *run) last() client.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return client.Event{Type: client.EventError, ID: r.id, CommandExitCode: client.ExitRefused, Problems: problemsOf(r.err)}
	}
	text, _ := json.Marshal(r.result)
	return client.Event{Type: client.EventResult, ID: r.id, CommandExitCode: *r.code, Result: text}
}

// lastLine is how the last event is written: the code is there also when it is 0.
type lastLine struct {
	client.Event
	CommandExitCode int `json:"command_exit_code"`
}

// events writes events as lines of JSON.
type events struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	rc   *http.ResponseController
	fail error
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return &events{w: w, rc: http.NewResponseController(w)}
}

func (e *events) send(v client.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail == nil {
		_ = e.rc.SetWriteDeadline(time.Now().Add(readerTime))
		var line any = v
		if v.Type == client.EventResult || v.Type == client.EventError {
			line = lastLine{v, v.CommandExitCode}
		}
		if e.fail = json.NewEncoder(e.w).Encode(line); e.fail == nil {
			e.fail = e.rc.Flush()
		}
		_ = e.rc.SetWriteDeadline(time.Time{}) // the connection goes on
	}
	return e.fail
}

// readerTime is how long who reads events may take nothing before they are
// given up.
const readerTime = time.Minute

// eventWriter writes events of one type.
type eventWriter struct {
	typ string
	to  func(client.Event) error
}

func (w eventWriter) Write(p []byte) (int, error) {
	if err := w.to(client.Event{Type: w.typ, Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *events) stream(typ string) io.Writer { return eventWriter{typ, e.send} }

// find finds the run of a request.
func (s *Server) find(r *http.Request) (*run, error) {
	id := r.PathValue("id")
	one := s.runs.find(id)
	if one == nil {
		return nil, failed(http.StatusNotFound, fmt.Sprintf("cannot find run %q", id), "isolate ps --all lists what there is; what ended long ago is forgotten")
	}
	return one, nil
}

func (s *Server) getRuns(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, map[string]any{"runs": s.runs.all()})
}

// getRun describes a run; with ?wait=true when it has ended.
func (s *Server) getRun(w http.ResponseWriter, r *http.Request) error {
	one, err := s.find(r)
	if err != nil {
		return err
	}
	wait, err := switchOf(r, "wait")
	if err != nil {
		return err
	}
	if wait {
		select {
		case <-one.done:
		case <-r.Context().Done():
			return nil
		}
	}
	return answer(w, http.StatusOK, one.describe())
}

func (s *Server) deleteRun(w http.ResponseWriter, r *http.Request) error {
	one, err := s.find(r)
	if err != nil {
		return err
	}
	if !s.runs.forget(one) {
		return failed(http.StatusConflict, fmt.Sprintf("cannot forget run %q: it is running", one.id), "end it first: isolate kill "+one.id)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) killRun(w http.ResponseWriter, r *http.Request) error {
	one, err := s.find(r)
	if err != nil {
		return err
	}
	if one.hasEnded() {
		return failed(http.StatusConflict, fmt.Sprintf("cannot end run %q: it has ended", one.id), "")
	}
	one.kill()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// putStdin sends its body to the program, and then the end of the input, but
// for ?more=true.
func (s *Server) putStdin(w http.ResponseWriter, r *http.Request) error {
	one, err := s.find(r)
	if err != nil {
		return err
	}
	if one.input == nil {
		return failed(http.StatusConflict, fmt.Sprintf("cannot write to run %q: its standard input is not open", one.id), "ask for the run with open_input")
	}
	more, err := switchOf(r, "more")
	if err != nil {
		return err
	}
	in := one.input
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, err := io.Copy(in.w, r.Body); err != nil {
		if errors.Is(err, io.ErrClosedPipe) {
			return failed(http.StatusConflict, fmt.Sprintf("cannot write to run %q: it has ended, or its input has", one.id), "")
		}
		return err
	}
	if !more {
		in.w.Close()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getLogs gives the last output; with ?follow=true also what comes.
func (s *Server) getLogs(w http.ResponseWriter, r *http.Request) error {
	one, err := s.find(r)
	if err != nil {
		return err
	}
	if one.log == nil {
		return failed(http.StatusConflict, fmt.Sprintf("cannot show the output of run %q: it went to the command that asked for it", one.id), "look where that command was started; the output of runs over HTTP is kept here")
	}
	follow, err := switchOf(r, "follow")
	if err != nil {
		return err
	}
	out := newEvents(w)
	for at := uint64(0); ; {
		part, next, more := one.log.since(at)
		at = next
		for _, e := range part {
			if out.send(e) != nil {
				return nil
			}
		}
		if more == nil {
			<-one.done
			_ = out.send(one.last())
			return nil
		}
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
}
