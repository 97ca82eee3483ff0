package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/server"
)

// A request may give its program less time than the policy gives, and no more.
func TestTimeOfARun(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	s, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak})
	if err != nil {
		t.Fatal(err)
	}
	in := func(time string) (got ran, err error) {
		err = l.RunIn(t.Context(), s.ID, client.RunRequest{Args: []string{"sleep", "600"}, Time: time}, func(e client.Event) error { got.take(t, e); return nil })
		return got, err
	}
	if got, err := in("200ms"); err != nil || got.code != 124 || got.result.Reason != isolate.ReasonWall {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := in("2m"); err != nil || got.code != client.ExitRefused || len(got.problems) != 1 || got.problems[0].Remedy == "" {
		t.Errorf("more than the policy gives: %+v, %v", got, err)
	}
	var e *client.Error
	if got, err := in("5"); !errors.As(err, &e) || e.Status != http.StatusBadRequest || e.Problems[0].Remedy == "" {
		t.Errorf("without a unit: %+v, %v", got, err)
	}
	if got := l.run(client.RunRequest{Args: []string{"sleep", "600"}, Time: "200ms"}); got.code != 124 {
		t.Errorf("in a sandbox of its own: %+v", got)
	}
}

// What is wrong with the query or a header is told like every other refusal.
func TestRefusalsAreProblems(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	s, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.PutFile(t.Context(), s.ID, "f", 0o644, strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	run := l.run(client.RunRequest{Args: []string{"true"}})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", l.socket)
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	file := "/v1/sandboxes/" + s.ID + "/files/f"
	for _, c := range []struct {
		path, ranges string
		status       int
		body         string
	}{
		{file, "", 200, "text"},
		{file, "bytes=1-2", 206, "ex"},
		{file, "bytes=9-", 416, `{"problems":[{"what":"cannot give range \"bytes=9-\"`},
		{file, "lines=1", 416, `{"problems":[{`},
		{"/v1/runs/" + run.id + "?wait=maybe", "", 400, `{"problems":[{"what":"cannot use wait=maybe`},
		{"/v1/runs/" + run.id + "?wait=true&wait=false", "", 400, `{"problems":[{`},
		{"/v1/runs/" + run.id + "?wait=false", "", 200, `{"id"`},
		{"/v1/runs/" + run.id + "/logs?follow=1", "", 400, `{"problems":[{`},
		{"/v1/runs/" + run.id + "?wait=%zz", "", 400, `{"problems":[{`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://isolate"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.ranges != "" {
			r.Header.Set("Range", c.ranges)
		}
		a, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(a.Body)
		a.Body.Close()
		kind := a.Header.Get("Content-Type")
		if a.StatusCode != c.status || !strings.HasPrefix(string(body), c.body) || c.status >= 400 && kind != "application/json" {
			t.Errorf("%s %s: %d, %s, %s", c.path, c.ranges, a.StatusCode, kind, body)
		}
	}
}

// Paths of the host mean what they mean to who asks, or are refused.
func TestCopyRefusals(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	s, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak})
	if err != nil {
		t.Fatal(err)
	}
	copyIn := func(in ...client.Input) func() error {
		return func() error { _, err := l.CopyIn(t.Context(), s.ID, in); return err }
	}
	copyOut := func(path, dir string) func() error {
		return func() error { _, err := l.CopyOut(t.Context(), s.ID, path, dir); return err }
	}
	for name, c := range map[string]struct {
		do   func() error
		what string
	}{
		"relative":     {copyIn(client.Input{Source: "kept_test.go"}), `cannot use path "kept_test.go": it is relative`},
		"nothing":      {copyIn(), "cannot copy: no file is named"},
		"no source":    {copyIn(client.Input{Target: "x"}), `cannot copy "" into the workspace`},
		"the bridge's": {copyIn(client.Input{Source: "/etc/hostname", Target: "_rpc/x"}), `cannot copy "/etc/hostname" into the workspace as "_rpc/x"`},
		"no text":      {copyIn(client.Input{Source: "/\xff"}), `cannot copy "/\xff"`},
		"relative out": {copyOut("", "out"), `cannot use path "out": it is relative`},
		"no out":       {copyOut("", ""), "cannot copy: no directory is named"},
		"out of it":    {copyOut("../x", t.TempDir()), `cannot use "../x"`},
		"no parent":    {copyOut(".", "/nowhere/out"), `cannot copy the workspace to "/nowhere/out"`},
	} {
		var refused *client.Error
		if err := c.do(); !errors.As(err, &refused) || !strings.HasPrefix(refused.Problems[0].What, c.what) || refused.Problems[0].Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sandbox that ends between the head of a request and its body is told as one
// that is not there: the file that was written to it is nowhere.
func TestEndedWhileAsked(t *testing.T) {
	l := newLab(t, isolate.Options{}, server.Options{})
	for request, body := range map[string]string{
		"POST /v1/sandboxes/%s/runs":    `{"args": ["true"]}`,
		"PUT /v1/sandboxes/%s/files/at": "text",
	} {
		t.Run(request, func(t *testing.T) { endedWhileAsked(t, l, request, body) })
	}
}

func endedWhileAsked(t *testing.T, l *lab, request, body string) {
	s, err := l.NewSandbox(t.Context(), client.SandboxRequest{Policy: weak})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, request+" HTTP/1.1\r\nHost: isolate\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", s.ID, len(body))
	within(t, "the request to have found it", func() bool {
		list, err := l.Sandboxes(t.Context())
		return err == nil && len(list) == 1 && list[0].Running == 1
	})
	if err := l.DeleteSandbox(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, body)
	if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), "cannot find sandbox") {
		t.Errorf("%s, %v", answer, err)
	}
}
