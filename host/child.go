package host

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The probing children.
//
// Kernel.Child starts them one after the other from a sealed memfd holding
// this program, which is how sandboxes are built too; only if that fails, from
// the program's file. They are told what to do by argv and a line of JSON on
// standard input, and answer with a line of JSON on standard output.
//
//	isolate-host-probe plain     no namespaces: the filter, control groups
//	isolate-host-probe cell      in new namespaces: what a cell needs
//	isolate-host-probe sandbox   cloned by "cell": what a sandbox needs
//	isolate-host-probe idle      in a user namespace, waits to be mapped by newuidmap
const (
	childName    = "isolate-host-probe"
	stagePlain   = "plain"
	stageCell    = "cell"
	stageSandbox = "sandbox"
	stageIdle    = "idle"
)

// Ask is what Kernel.Child is to try.
type Ask struct {
	// UID and GID are the ids that become root in the probing namespaces.
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Cgroups are the groups to make.
	Cgroups []AskCgroup `json:"cgroups"`
	// Mapping is how to map a range of subordinate ids; nil if the user has
	// no range or no program to map it.
	Mapping *AskMapping `json:"mapping,omitempty"`
}

// AskCgroup is a group to make below another one, to limit and to enter.
type AskCgroup struct {
	// Probe is the id of the check it is for.
	Probe string `json:"probe"`
	// Controller says where, and what is to be limited. One named "unified"
	// limits nothing.
	Controller Controller `json:"controller"`
	// Name is the name of the group to make.
	Name string `json:"name"`
	// Enable is what to ask of the group's cgroup.subtree_control if the
	// controller is not enabled there: "+memory +pids". Empty means nothing.
	Enable string `json:"enable,omitempty"`
}

// AskMapping is how to map a range of subordinate ids.
type AskMapping struct {
	NewUIDMap string `json:"newuidmap"` // path of the program
	NewGIDMap string `json:"newgidmap"`
	UIDs      Range  `json:"uids"`
	GIDs      Range  `json:"gids"`
}

// Range is a range of ids.
type Range struct {
	First int64 `json:"first"`
	Count int64 `json:"count"`
}

// Answer is what the children found.
type Answer struct {
	Findings []Finding `json:"findings"`
	// Err is why the children gave no answer or only a part of one.
	Err string `json:"err,omitempty"`
}

// Finding is the result of one probe.
type Finding struct {
	// Probe is the id of the check it is for.
	Probe string `json:"probe"`
	// Step is what failed, or everything that was done.
	Step string `json:"step"`
	// Errno is how it failed; 0 means that it worked.
	Errno Errno `json:"errno,omitempty"`
	// Detail is more of what was seen.
	Detail string `json:"detail,omitempty"`
	// Needs is the probe that failed before, so that this was not tried.
	Needs string `json:"needs,omitempty"`
	// Files are the control files seen in the group made.
	Files []string `json:"files,omitempty"`
}

// notHeld stands for a step in which every call worked and the result was not
// the one wanted. No call of the probes gives this number.
const notHeld = Errno(unix.ENOTRECOVERABLE)

// notSo is the error of such a step; got says what came instead.
func notSo(got any) error { return fmt.Errorf("%w: got %v", unix.ENOTRECOVERABLE, got) }

// evidence is the finding as a sentence.
func (f Finding) evidence() string {
	s := f.Step
	switch f.Errno {
	case 0:
	case notHeld:
		s += ": it did not come so"
	default:
		s += ": " + f.Errno.String()
	}
	if f.Detail != "" {
		s += ", " + f.Detail
	}
	return s
}

func (a Answer) find(probe string) (Finding, bool) {
	for _, f := range a.Findings {
		if f.Probe == probe {
			return f, true
		}
	}
	return Finding{}, false
}

// Handled says whether RunProbeChild did something.
type Handled int

// The answers of RunProbeChild.
const (
	// NotProbeChild means that this is an ordinary process.
	NotProbeChild Handled = iota
	// ProbeChildDone means that this process was a probing child and has
	// answered; it must end now.
	ProbeChildDone
)

// RunProbeChild does the work of a probing child if this process was started
// as one by Probe or Explain. It belongs at the start of main, before
// anything else runs:
//
//	if host.RunProbeChild() == host.ProbeChildDone {
//		os.Exit(0)
//	}
func RunProbeChild() Handled {
	if len(os.Args) != 2 || os.Args[0] != childName {
		return NotProbeChild
	}
	if os.Args[1] == stageIdle {
		io.Copy(io.Discard, os.Stdin) // until the parent has seen enough
		return ProbeChildDone
	}
	var ask Ask
	var t tally
	if err := json.NewDecoder(os.Stdin).Decode(&ask); err != nil {
		t.answer.Err = fmt.Sprintf("cannot read what to probe: %v", err)
	}
	switch os.Args[1] {
	case stagePlain:
		t.plain(ask)
	case stageCell:
		t.cell(ask)
	case stageSandbox:
		t.sandbox(ask)
	}
	// Nobody is left to tell if the parent has gone.
	_ = json.NewEncoder(os.Stdout).Encode(t.answer)
	return ProbeChildDone
}

// tally collects findings.
type tally struct{ answer Answer }

// try runs the steps of a probe until one fails. needs are probes without
// which it makes no sense.
func (t *tally) try(probe string, needs []string, steps ...step) {
	f := Finding{Probe: probe}
	for _, n := range needs {
		if g, ok := t.answer.find(n); !ok || g.Errno != 0 || g.Needs != "" {
			f.Needs = n
			t.add(f)
			return
		}
	}
	var did []string
	for _, s := range steps {
		detail, err := s.do()
		if detail != "" {
			f.Detail = detail
		}
		did = append(did, s.what)
		f.Step = strings.Join(did, ", ")
		if err != nil {
			f.Step = s.what
			f.Errno = errnoOf(err)
			if f.Errno == notHeld {
				f.Detail = err.Error()
			}
			break
		}
	}
	t.add(f)
}

func (t *tally) add(f ...Finding) { t.answer.Findings = append(t.answer.Findings, f...) }

// merge takes over what another child found.
func (t *tally) merge(a Answer) {
	t.add(a.Findings...)
	if t.answer.Err == "" {
		t.answer.Err = a.Err
	}
}

// skip marks probes that cannot be tried.
func (t *tally) skip(needs string, probes ...string) {
	for _, p := range probes {
		if !slices.ContainsFunc(t.answer.Findings, func(f Finding) bool { return f.Probe == p }) {
			t.add(Finding{Probe: p, Needs: needs})
		}
	}
}

// step is one thing to do, named as in "cannot <what>".
type step struct {
	what string
	do   func() (detail string, err error)
}

// act is a step without a detail.
func act(what string, do func() error) step {
	return step{what, func() (string, error) { return "", do() }}
}
