package host

import (
	"encoding/json"
	"fmt"
)

// Status is what a check found. The zero value is Fail, so that a check that
// was never made does not pass.
type Status int

// The statuses, worst first.
const (
	// Fail means a guarantee is missing.
	Fail Status = iota
	// Warn means a guarantee holds in part, or something costs safety or speed.
	Warn
	// Info is worth knowing and takes no guarantee away. A probe that could
	// not be tried because an earlier one failed is Info too.
	Info
	// OK means the guarantee holds.
	OK
)

// Block says what a failed check does to a run.
type Block int

// The effects of a failed check.
const (
	// BlockAlways refuses every run. It is the zero value.
	BlockAlways Block = iota
	// BlockUnlessAllowed refuses a run that does not consent to the
	// weakening named in Check.Allow.
	BlockUnlessAllowed
	// BlockNever lets runs go on.
	BlockNever
)

// Check is one thing looked at.
type Check struct {
	// ID names the check for scripts: "userns.create". It never changes.
	ID string `json:"id"`
	// Title is the guarantee or fact in a few words.
	Title  string `json:"title"`
	Status Status `json:"status"`
	// Blocking is what Status Fail does to a run; with another status it
	// says what a failure would have done.
	Blocking Block `json:"blocking"`
	// Allow is the weakening of package policy that lifts
	// BlockUnlessAllowed; empty with the other effects.
	Allow string `json:"allow,omitempty"`
	// Evidence is what was seen, and by reading or doing what.
	Evidence string `json:"evidence"`
	// What is what cannot be done: "cannot mount proc". Empty if OK.
	What string `json:"what,omitempty"`
	// Missing is the guarantee that is missing, or what is lost. Empty if OK.
	Missing string `json:"missing,omitempty"`
	// Remedy is what to do. Empty if OK or if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`

	// commands is the remedy as a shell takes it; see Report.Setup.
	commands string
	// cause is the error number behind the finding; 0 is none. Explain uses it.
	cause Errno
}

// Refuses says whether the check refuses a run that consented to nothing.
func (c Check) Refuses() bool { return c.Status == Fail && c.Blocking != BlockNever }

// Verdict is the sum of a report.
type Verdict int

// The verdicts, worst first. The zero value is the worst.
const (
	// CannotRun means that a run with default settings is refused.
	CannotRun Verdict = iota
	// Degraded means that sandboxes run and something is to be improved.
	Degraded
	// Ready means that every guarantee holds.
	Ready
)

// ExitCode is the code `isolate doctor` ends with: 0 ready, 1 degraded,
// 2 cannot run.
func (v Verdict) ExitCode() int { return int(Ready - v) }

// Report is everything that was looked at, in the order of docs/doctor.md.
type Report struct {
	Checks []Check
	// Cgroups is where limits can be put.
	Cgroups Cgroups
	// Identity says whose kernel user id a sandboxed program has.
	Identity Identity
	// Release is the kernel's release, as uname -r prints it.
	Release string
}

// Verdict sums the checks up. A report without checks cannot run.
func (r Report) Verdict() Verdict {
	if len(r.Checks) == 0 {
		return CannotRun
	}
	v := Ready
	for _, c := range r.Checks {
		if c.Refuses() {
			return CannotRun
		}
		if c.Status <= Warn {
			v = Degraded
		}
	}
	return v
}

// Check returns the check with that id; one that does not exist has Status Fail
// and no ID.
func (r Report) Check(id string) Check {
	for _, c := range r.Checks {
		if c.ID == id {
			return c
		}
	}
	return Check{}
}

// reportVersion counts incompatible changes of the JSON form.
const reportVersion = 1

// MarshalJSON gives the documented form of docs/doctor.md.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Version  int      `json:"version"`
		Verdict  Verdict  `json:"verdict"`
		ExitCode int      `json:"exit_code"`
		Release  string   `json:"kernel"`
		Identity Identity `json:"identity"`
		Cgroups  Cgroups  `json:"cgroups"`
		Checks   []Check  `json:"checks"`
	}{reportVersion, r.Verdict(), r.Verdict().ExitCode(), r.Release, r.Identity, r.Cgroups, r.Checks})
}

var (
	statusNames  = [...]string{Fail: "fail", Warn: "warn", Info: "info", OK: "ok"}
	blockNames   = [...]string{BlockAlways: "always", BlockUnlessAllowed: "unless-allowed", BlockNever: "never"}
	verdictNames = [...]string{CannotRun: "cannot-run", Degraded: "degraded", Ready: "ready"}
	accessNames  = [...]string{AccessUnknown: "unknown", AccessNo: "no", AccessYes: "yes"}
)

func (s Status) String() string  { return nameOf(statusNames[:], int(s)) }
func (b Block) String() string   { return nameOf(blockNames[:], int(b)) }
func (v Verdict) String() string { return nameOf(verdictNames[:], int(v)) }
func (a Access) String() string  { return nameOf(accessNames[:], int(a)) }

// MarshalText gives the name that String gives.
func (s Status) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (b Block) MarshalText() ([]byte, error)   { return []byte(b.String()), nil }
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
func (a Access) MarshalText() ([]byte, error)  { return []byte(a.String()), nil }

// UnmarshalText takes exactly the names that String gives.
func (s *Status) UnmarshalText(b []byte) error  { return numberOf((*int)(s), statusNames[:], b) }
func (b *Block) UnmarshalText(t []byte) error   { return numberOf((*int)(b), blockNames[:], t) }
func (v *Verdict) UnmarshalText(b []byte) error { return numberOf((*int)(v), verdictNames[:], b) }
func (a *Access) UnmarshalText(b []byte) error  { return numberOf((*int)(a), accessNames[:], b) }

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("unknown-%d", i)
	}
	return names[i]
}

func numberOf(to *int, names []string, b []byte) error {
	for i, n := range names {
		if n == string(b) {
			*to = i
			return nil
		}
	}
	return fmt.Errorf("cannot read %q: not one of %q", b, names)
}
