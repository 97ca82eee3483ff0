package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/plan"
)

// auditFlags are those of the commands that record.
func auditFlags() []flagSpec {
	return []flagSpec{
		{name: "audit", kind: kindDir},
		{name: "audit-key", kind: kindDir},
		{name: "audit-anchor", kind: "FILE|URL|cmd:COMMAND"},
		{name: "audit-args", kind: kindSwitch, alone: "true"},
	}
}

// auditRequest is what these flags come to. The zero value records nothing.
type auditRequest struct {
	dir    string
	keys   string
	anchor audit.Anchor // nil is none
	// payload is what is kept of arguments.
	payload audit.PayloadMode
}

func (r *reader) readAudit() auditRequest {
	var q auditRequest
	read(r, "audit", &q.dir, r.dirOf)
	if q.dir == "" {
		if alone := r.flags.given("audit-key", "audit-anchor", "audit-args"); alone != "" {
			r.add(auditAlone(alone))
		}
		return q
	}
	read(r, "audit-key", &q.keys, r.dirOf)
	if q.keys == "" {
		var err error
		if q.keys, err = r.keyDir(); err != nil {
			r.add(problemsOf(err)...)
		}
	}
	if inside(q.dir, q.keys) {
		r.add(auditKeyInLog(q.keys, q.dir))
	}
	if text, given := r.flags.one("audit-anchor", &r.problems); given {
		q.anchor = r.anchor(text)
	}
	if r.flags.on("audit-args", &r.problems) {
		q.payload = audit.PayloadText
	}
	r.add(q.shown(r.shownPaths())...)
	return q
}

// shownPaths are the host paths that the program sees or gets a copy of.
func (r *reader) shownPaths() []string {
	var list []string
	if root := r.request.policy.Rootfs; root != "" {
		list = append(list, root)
	}
	for _, b := range r.request.policy.ReadOnly {
		list = append(list, b.Source)
	}
	for _, in := range r.request.cmd.In {
		list = append(list, in.Source)
	}
	return list
}

// inside tells whether path is dir or below it.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// openLog opens the log that was asked for; nil if none was. The end of ctx ends
// the waiting for an anchor.
func (q auditRequest) openLog(ctx context.Context) (*audit.Log, error) {
	if q.dir == "" {
		return nil, nil
	}
	key, err := audit.LoadKey(q.keys)
	if err != nil {
		return nil, err
	}
	anchor := q.anchor
	if r, is := anchor.(recaller); is {
		anchor = awaited{r, ctx}
	}
	l, err := audit.Open(q.dir, audit.Options{Key: key, Anchor: anchor, Payload: q.payload})
	return l, unusablePlace(err)
}

// shown refuses to show a program the log or its keys.
func (q auditRequest) shown(binds []string) []plan.Problem {
	if q.dir == "" {
		return nil
	}
	var list []plan.Problem
	for _, b := range binds {
		for _, own := range []string{q.dir, q.keys} {
			if inside(b, own) || inside(own, b) {
				list = append(list, auditShown(b, own))
			}
		}
	}
	return list
}

// recorded runs do with the log open.
func (a *app) recorded(i *interrupts, q auditRequest, do func(*audit.Log) outcome) outcome {
	l, err := q.openLog(i.ctx)
	if err != nil {
		return a.withoutResult(i, err)
	}
	if l == nil {
		return do(nil)
	}
	o := do(l)
	if err := l.Close(); err != nil && !errors.Is(err, audit.ErrClosed) {
		o.problems = append(o.problems, problemsOf(fmt.Errorf("cannot close audit log: %w", err))...)
		o.code = exitRefused
	}
	return o
}
