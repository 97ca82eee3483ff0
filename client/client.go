// Package client speaks to a server of isolate: the types on the wire and the
// calls, as Go functions.
//
// It imports only the standard library, so that a program which wants nothing
// but a sandbox of a server stays small. It runs nothing itself and decides
// nothing: what a policy means, only the server knows. It needs a Unix socket
// and no Linux of a certain version.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SocketName is the name of the server's socket in the run-time directory.
const SocketName = "serve.sock"

// Client calls one server. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// New makes a client for the server that listens on socket. It does not
// connect yet.
func New(socket string) *Client {
	var d net.Dialer
	return &Client{socket, &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
	}}}
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is a server's refusal.
type Error struct {
	// Status is the HTTP status.
	Status   int
	Problems []Problem
}

func (e *Error) Error() string {
	if len(e.Problems) == 0 {
		return "cannot use the server: it answers " + strconv.Itoa(e.Status)
	}
	var lines []string
	for _, p := range e.Problems {
		line := p.What
		if p.Rule != "" {
			line += ": " + p.Rule
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// UnreachableError means that no server listens.
type UnreachableError struct {
	Socket string
	Cause  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach a server on %q: %v", e.Socket, e.Cause)
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// ask sends a request and gives the answer if it is a success. The caller
// closes its body.
func (c *Client) ask(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://isolate"+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make request: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	r, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return nil, &UnreachableError{c.socket, op.Err}
		}
		return nil, fmt.Errorf("cannot ask the server: %w", err)
	}
	if r.StatusCode < 300 {
		return r, nil
	}
	defer r.Body.Close()
	e := &Error{Status: r.StatusCode}
	var said struct{ Problems []Problem }
	if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&said) == nil {
		e.Problems = said.Problems
	}
	return nil, e
}

// encoded is the body of a request as JSON; nil has none.
func encoded(in any) (io.Reader, error) {
	if in == nil {
		return nil, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("cannot encode request: %w", err)
	}
	return bytes.NewReader(text), nil
}

// call sends in as JSON, unless it is nil, and reads the answer into out,
// unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := encoded(in)
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if out == nil {
		return nil
	}
	return decoded(r.Body, out)
}

// decoded reads an answer.
func decoded(from io.Reader, out any) error {
	if err := json.NewDecoder(from).Decode(out); err != nil {
		return fmt.Errorf("cannot read the server's answer: %w", err)
	}
	return nil
}

// Version asks what serves.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	return v, c.call(ctx, "GET", "/v1/version", nil, &v)
}

// Stats asks what the server has and has done.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	return s, c.call(ctx, "GET", "/v1/stats", nil, &s)
}

// Runs lists the runs, oldest first.
func (c *Client) Runs(ctx context.Context) ([]Run, error) {
	var list struct{ Runs []Run }
	err := c.call(ctx, "GET", "/v1/runs", nil, &list)
	return list.Runs, err
}

// GetRun describes a run.
func (c *Client) GetRun(ctx context.Context, id string) (r Run, err error) {
	return r, c.call(ctx, "GET", "/v1/runs/"+url.PathEscape(id), nil, &r)
}

// WaitRun describes a run when it has ended.
func (c *Client) WaitRun(ctx context.Context, id string) (r Run, err error) {
	return r, c.call(ctx, "GET", "/v1/runs/"+url.PathEscape(id)+"?wait=true", nil, &r)
}

// KillRun ends a run.
func (c *Client) KillRun(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/v1/runs/"+url.PathEscape(id)+"/kill", nil, nil)
}

// ForgetRun makes the server forget a run that has ended.
func (c *Client) ForgetRun(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", "/v1/runs/"+url.PathEscape(id), nil, nil)
}

// check refuses what JSON would change: bytes that are no text.
func (q RunRequest) check() error {
	wrong := func(what string) error {
		return notText("cannot ask for a run: "+what, "put the bytes into a file or into standard input; isolate exec takes any")
	}
	for _, arg := range slices.Concat(q.Args, []string{q.Dir, q.Out, q.Policy}) {
		if !utf8.ValidString(arg) {
			return wrong(fmt.Sprintf("%q", arg))
		}
	}
	for name, value := range q.Env {
		if !utf8.ValidString(name + "=" + value) {
			return wrong(fmt.Sprintf("variable %q", name)) // its value may be a secret
		}
	}
	for _, in := range q.In {
		if !utf8.ValidString(in.Source) || !utf8.ValidString(in.Target) {
			return wrong(fmt.Sprintf("%q", in.Source+":"+in.Target))
		}
	}
	return nil
}

// notText refuses bytes that are no text.
func notText(what, remedy string) error {
	return &Error{Problems: []Problem{{What: what, Rule: "it is not UTF-8, and a server is asked in JSON", Remedy: remedy}}}
}

// Run runs a program and gives each event to got, in order; an error of got
// ends the run. It returns after the last event. The end of ctx ends the run.
func (c *Client) Run(ctx context.Context, q RunRequest, got func(Event) error) error {
	if err := q.check(); err != nil {
		return err
	}
	return c.events(ctx, "POST", "/v1/runs", q, got)
}

// RunIn is Run in a kept sandbox.
func (c *Client) RunIn(ctx context.Context, sandbox string, q RunRequest, got func(Event) error) error {
	if err := q.check(); err != nil {
		return err
	}
	return c.events(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(sandbox)+"/runs", q, got)
}

// Start runs a program that goes on without us.
func (c *Client) Start(ctx context.Context, q RunRequest) (r Run, err error) {
	q.Detach = true
	if err := q.check(); err != nil {
		return r, err
	}
	return r, c.call(ctx, "POST", "/v1/runs", q, &r)
}

// Logs gives the end of a run's output to got.
func (c *Client) Logs(ctx context.Context, id string, got func(Event) error) error {
	return c.events(ctx, "GET", "/v1/runs/"+url.PathEscape(id)+"/logs", nil, got)
}

// FollowLogs is Logs, and goes on until the run has ended.
func (c *Client) FollowLogs(ctx context.Context, id string, got func(Event) error) error {
	return c.events(ctx, "GET", "/v1/runs/"+url.PathEscape(id)+"/logs?follow=true", nil, got)
}

// WriteStdin writes all that from holds to the standard input of a run that
// was asked for with OpenInput, and ends the input.
func (c *Client) WriteStdin(ctx context.Context, id string, from io.Reader) error {
	r, err := c.ask(ctx, "PUT", "/v1/runs/"+url.PathEscape(id)+"/stdin", nil, from)
	if err != nil {
		return err
	}
	return r.Body.Close()
}

func (c *Client) events(ctx context.Context, method, path string, q any, got func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := encoded(q)
	if err != nil {
		return err
	}
	r, err := c.ask(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	d := json.NewDecoder(r.Body)
	last := ""
	for {
		var e Event
		err := d.Decode(&e)
		if err == io.EOF && (last == EventResult || last == EventError || method == "GET") {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot say how the program ended: the server has ended before it: %w", err)
		}
		if err := got(e); err != nil {
			return err
		}
		last = e.Type
	}
}

// NewSandbox makes a sandbox that the server keeps.
func (c *Client) NewSandbox(ctx context.Context, q SandboxRequest) (s Sandbox, err error) {
	return s, c.call(ctx, "POST", "/v1/sandboxes", q, &s)
}

// Sandboxes lists the kept sandboxes, oldest first.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	var list struct{ Sandboxes []Sandbox }
	err := c.call(ctx, "GET", "/v1/sandboxes", nil, &list)
	return list.Sandboxes, err
}

// RenewSandbox begins the idle time of a kept sandbox anew.
func (c *Client) RenewSandbox(ctx context.Context, id string) (s Sandbox, err error) {
	return s, c.call(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(id)+"/lease", nil, &s)
}

// GrantNet opens the network of a kept sandbox for a time.
func (c *Client) GrantNet(ctx context.Context, sandbox string, q NetGrant) (g NetGranted, err error) {
	return g, c.call(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(sandbox)+"/net", q, &g)
}

// KillSandbox ends every program in a kept sandbox, which stays.
func (c *Client) KillSandbox(ctx context.Context, id string) error {
	return c.call(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(id)+"/kill", nil, nil)
}

// DeleteSandbox ends a kept sandbox.
func (c *Client) DeleteSandbox(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", "/v1/sandboxes/"+url.PathEscape(id), nil, nil)
}

// filePath is the path of a file of a sandbox on the wire. HTTP would clean a
// path that is not clean and so name another file: it is an error.
func filePath(sandbox, what, path string) (string, error) {
	parts := strings.Split(path, "/")
	if path == "." || !filepath.IsLocal(path) || filepath.Clean(path) != path {
		return "", &Error{Problems: []Problem{{
			What:   fmt.Sprintf("cannot use %q", path),
			Rule:   "it is not the path of a file from /workspace on",
			Remedy: `write such as "data/x.csv", without a slash in front or at the end, "." and ".."`,
		}}}
	}
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/sandboxes/" + url.PathEscape(sandbox) + "/" + what + "/" + strings.Join(parts, "/"), nil
}

// PutFile writes a file below /workspace, whole or not at all. mode are its
// permission bits.
func (c *Client) PutFile(ctx context.Context, sandbox, path string, mode uint32, from io.Reader) (w Written, err error) {
	name, err := filePath(sandbox, "files", path)
	if err != nil {
		return w, err
	}
	r, err := c.ask(ctx, "PUT", name+"?mode="+strconv.FormatUint(uint64(mode), 8), nil, from)
	if err != nil {
		return w, err
	}
	defer r.Body.Close()
	return w, decoded(r.Body, &w)
}

// GetFile opens a file below /workspace, from byte offset on. The caller
// closes it.
func (c *Client) GetFile(ctx context.Context, sandbox, path string, offset int64) (io.ReadCloser, error) {
	name, err := filePath(sandbox, "files", path)
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	if offset > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	r, err := c.ask(ctx, "GET", name, h, nil)
	if err != nil {
		return nil, err
	}
	return r.Body, nil
}

// CopyIn copies files and directories of the host into a kept sandbox, and gives
// the manifest, which docs/files.md describes. Sources are absolute.
func (c *Client) CopyIn(ctx context.Context, sandbox string, in []Input) (manifest json.RawMessage, err error) {
	for _, i := range in {
		if err := checkPaths(i.Source, i.Target); err != nil {
			return nil, err
		}
	}
	return manifest, c.call(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(sandbox)+"/in", CopyIn{in}, &manifest)
}

// CopyOut copies a directory below /workspace, "" or "." being /workspace
// itself, to a directory of the host, which is made or is empty, and gives the
// manifest.
func (c *Client) CopyOut(ctx context.Context, sandbox, path, dir string) (manifest json.RawMessage, err error) {
	if path == "." {
		path = ""
	}
	if path != "" {
		if _, err := filePath(sandbox, "out", path); err != nil {
			return nil, err
		}
	}
	if err := checkPaths(path, dir); err != nil {
		return nil, err
	}
	return manifest, c.call(ctx, "POST", "/v1/sandboxes/"+url.PathEscape(sandbox)+"/out", CopyOut{path, dir}, &manifest)
}

// checkPaths refuses what JSON would change.
func checkPaths(paths ...string) error {
	for _, p := range paths {
		if !utf8.ValidString(p) {
			return notText(fmt.Sprintf("cannot copy %q", p), "give it, or a directory above it, another name")
		}
	}
	return nil
}

// ListFiles lists a directory below /workspace, "" or "." being /workspace
// itself.
func (c *Client) ListFiles(ctx context.Context, sandbox, path string) (l FileList, err error) {
	name := "/v1/sandboxes/" + url.PathEscape(sandbox) + "/list/"
	if path != "" && path != "." {
		if name, err = filePath(sandbox, "list", path); err != nil {
			return l, err
		}
	}
	return l, c.call(ctx, "GET", name, nil, &l)
}
