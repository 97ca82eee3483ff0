package host

import (
	"context"
	"crypto/rand"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Probe looks at everything. It starts a few children one after the other,
// takes about a tenth of a second, and leaves nothing behind. A context that
// ends makes the probes that were not reached fail.
func Probe(ctx context.Context, o Options) Report {
	s := look(o)
	s.ctx = ctx
	s.loadMapping()
	s.nest = s.o.nesting()
	s.answer = s.o.Kernel.Child(ctx, s.ask())
	s.done = true
	r := Report{Release: s.calls.Release, Cgroups: s.provenCgroups(), Identity: s.identity()}
	for _, sec := range sections() {
		for _, l := range sec.looks {
			if c, ok := l.run(s); ok {
				r.Checks = append(r.Checks, c)
			}
		}
	}
	return r
}

// entry is a check as it stands in docs/doctor.md.
type entry struct {
	id, title string
	// probes says what is read or done.
	probes string
	block  Block
	allow  string
}

// fault is one way in which a check can turn out badly, in words. The texts
// stand in words.go.
type fault struct {
	of []*entry
	// what, missing and remedy become the fields of Check. They may hold
	// {placeholders}; see sight.fill.
	what, missing, remedy string
}

// lookup is a check and the function that makes it.
type lookup struct {
	entry *entry
	// speed says whether Blocking makes the check too.
	speed speed
	check func(*sight) Check
	// applies says whether there is anything to check; nil means always.
	applies func(*sight) bool
}

type speed int

const (
	slow speed = iota // for Probe only
	fast              // for Blocking too: a few reads, no child
)

func (l lookup) run(s *sight) (Check, bool) {
	if l.applies != nil && !l.applies(s) {
		return Check{}, false
	}
	return l.check(s), true
}

// sight is what one Probe or Blocking has in view.
type sight struct {
	o       Options
	ctx     context.Context
	calls   Calls
	mounts  []*mountinfo.Info
	cgroups Cgroups
	nest    nesting // from loadNesting; the fast checks do without

	// done says that children were asked: answer holds what they said.
	// Blocking has to judge without.
	done   bool
	answer Answer

	user    string // from userName
	mapping *AskMapping
	mapLack string // why there is no mapping
}

// look reads what both Probe and Blocking need.
func look(o Options) *sight {
	s := &sight{o: o.withDefaults(), ctx: context.Background()}
	s.calls = s.o.Kernel.Calls()
	s.mounts = s.o.mounts()
	if s.o.Cgroups != nil {
		s.cgroups = *s.o.Cgroups
	} else {
		s.cgroups = s.o.cgroups(s.mounts)
	}
	return s
}

// The names of the groups looked at beside those of the controllers.
const unifiedName = "unified"

func (s *sight) ask() Ask {
	a := Ask{UID: s.o.UID, GID: s.o.GID, Mapping: s.mapping}
	name := "isolate-host-probe-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(rand.Text()[:8]) + "-"
	for _, c := range s.cgroups.Controllers() {
		if c.Dir != "" {
			a.Cgroups = append(a.Cgroups, AskCgroup{
				Probe: "cgroup." + c.Name, Controller: c, Name: name + c.Name, Enable: s.enable(c)})
		}
	}
	if s.cgroups.Unified.Dir != "" {
		c := Controller{Name: unifiedName, Version: 2, Group: s.cgroups.Unified}
		a.Cgroups = append(a.Cgroups, AskCgroup{Probe: cgroupKill.id, Controller: c, Name: name + c.Name})
	}
	return a
}

// enable is what can be asked of a group without effect; see offers. In the
// root of the hierarchy it would take effect, for all the machine.
func (s *sight) enable(c Controller) string {
	m := s.cgroups.Memory
	switch {
	case c.Enabled || c.Top || m.Dir != c.Dir || !m.Available:
		return ""
	case c.Name == m.Name:
		return "+memory"
	}
	return "+memory +" + c.Name
}

// provenCgroups is what was read, corrected by what was done.
func (s *sight) provenCgroups() Cgroups {
	c := s.cgroups
	for _, p := range []*Controller{&c.Memory, &c.PIDs, &c.CPU} {
		f, ok := s.answer.find("cgroup." + p.Name)
		switch {
		case !ok:
		case f.Errno == 0:
			p.Writable, p.Reason = AccessYes, ""
		default:
			p.Writable, p.Reason = AccessNo, "cannot "+f.evidence()
		}
	}
	if f, ok := s.answer.find(cgroupKill.id); ok {
		c.Unified.Writable = AccessYes
		if f.Errno != 0 {
			c.Unified.Writable = AccessNo
		}
	}
	return c
}

// ok is the check that found the guarantee to hold.
func (e *entry) ok(evidence string) Check {
	return Check{ID: e.id, Title: e.title, Status: OK, Blocking: e.block, Allow: e.allow, Evidence: evidence}
}

// info is the check that found something to know and nothing to mend.
func (e *entry) info(evidence string) Check {
	c := e.ok(evidence)
	c.Status = Info
	return c
}

// say is the check that turned out badly.
func (s *sight) say(e *entry, f *fault, st Status, evidence string) Check {
	c := e.ok(evidence)
	c.Status = st
	c.What, c.Missing, c.Remedy = s.fill(e, f.what), s.fill(e, f.missing), s.fill(e, f.remedy)+consent(e)
	c.commands = s.commandsFor(f)
	return c
}

// consent is the last remedy where there is one.
func consent(e *entry) string {
	if e.allow == "" {
		return ""
	}
	return "; or consent with --allow " + e.allow
}

// fill replaces the placeholders of words.go.
func (s *sight) fill(e *entry, text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	user := s.userName()
	if user == "" {
		user = "$USER"
	}
	return strings.NewReplacer(
		"{user}", user,
		"{uid}", strconv.Itoa(s.o.UID),
		"{dir}", s.runtimeDir(),
		"{controller}", strings.TrimPrefix(e.id, "cgroup."),
		"{guards}", guards(e),
		"{since}", featureOf(e.featureName()).since,
		"{log}", s.audit().Log,
		"{key}", s.audit().Key,
	).Replace(text)
}

// byDoing is the check of a probe that a child made. judge chooses the words
// for a finding that failed.
func (s *sight) byDoing(e *entry, judge func(Finding) (*fault, Status)) Check {
	f, ok := s.answer.find(e.id)
	switch {
	case !ok:
		why := s.answer.Err
		if why == "" {
			why = "no child reported it"
		}
		return s.say(e, &noAnswer, Fail, why)
	case f.Needs != "":
		return e.info("not tried, because " + f.Needs + " failed")
	case f.Errno == 0:
		return e.ok("did: " + f.evidence())
	}
	words, st := judge(f)
	c := s.say(e, words, st, "tried: "+f.evidence())
	c.cause = f.Errno
	return c
}

// always judges every failure of a probe the same.
func always(f *fault) func(Finding) (*fault, Status) {
	return func(Finding) (*fault, Status) { return f, Fail }
}
