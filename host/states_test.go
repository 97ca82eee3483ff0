package host

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and the table of docs/doctor.md")

// What each state comes to: the verdict, the checks that fail and, of those,
// what Blocking already sees.
var states = map[string]struct {
	verdict  Verdict
	fails    []string
	blocking []string
}{
	"ready":                   {Ready, nil, nil},
	"ubuntu-apparmor":         {CannotRun, []string{"userns.apparmor", "userns.create"}, nil},
	"ubuntu-apparmor-profile": {Ready, nil, nil},
	"debian-userns-off":       {CannotRun, []string{"userns.clone-sysctl", "userns.create"}, []string{"userns.clone-sysctl"}},
	"userns-max-0":            {CannotRun, []string{"userns.max", "userns.create"}, []string{"userns.max"}},
	"login-session":           {CannotRun, []string{"cgroup.memory", "cgroup.pids"}, []string{"cgroup.memory", "cgroup.pids"}},
	"no-controllers":          {CannotRun, []string{"cgroup.memory", "cgroup.pids"}, []string{"cgroup.memory", "cgroup.pids"}},
	"delegated-busy":          {Ready, nil, nil},
	"hybrid":                  {CannotRun, []string{"cgroup.memory", "cgroup.pids", "kernel.mount-api"}, []string{"cgroup.memory", "cgroup.pids", "kernel.mount-api"}},
	"cgroup1-given":           {Degraded, nil, nil},
	"memfd-noexec-2":          {CannotRun, []string{"memfd.noexec", "memfd.exec"}, []string{"memfd.noexec"}},
	"docker-default":          {CannotRun, []string{"userns.create", "cgroup.memory", "cgroup.pids", "kernel.mount-api"}, []string{"cgroup.memory", "cgroup.pids", "kernel.mount-api"}},
	"docker-masked":           {CannotRun, []string{"proc.mount"}, nil},
	"podman-masked":           {CannotRun, []string{"proc.mount"}, nil},
	"kubernetes":              {CannotRun, []string{"userns.create", "cgroup.memory", "cgroup.pids"}, []string{"cgroup.memory", "cgroup.pids"}},
	"old-kernel": {CannotRun,
		[]string{"kernel.openat2", "kernel.pidfd", "kernel.close_range", "kernel.seccomp-notify", "kernel.mount-api"},
		[]string{"kernel.openat2", "kernel.pidfd", "kernel.close_range", "kernel.seccomp-notify", "kernel.mount-api"}},
	"in-userns": {Ready, nil, nil},
	"root":      {Degraded, nil, nil},
	"everything-missing": {CannotRun,
		[]string{"userns.max", "userns.clone-sysctl", "userns.create", "cgroup.memory", "cgroup.pids", "kernel.openat2", "kernel.seccomp-notify", "kernel.mount-api", "memfd.noexec", "memfd.exec", "rundir.owner"},
		[]string{"userns.max", "userns.clone-sysctl", "cgroup.memory", "cgroup.pids", "kernel.openat2", "kernel.seccomp-notify", "kernel.mount-api", "memfd.noexec"}},
}

func TestStates(t *testing.T) {
	files, err := filepath.Glob("testdata/states/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(states) {
		t.Errorf("%d states in testdata, %d in the table", len(files), len(states))
	}
	for name, want := range states {
		t.Run(name, func(t *testing.T) {
			o, _ := loadState(t, name)
			r := Probe(t.Context(), o)
			if got := r.Verdict(); got != want.verdict {
				t.Errorf("verdict %v, want %v", got, want.verdict)
			}
			if got := idsOf(r.Checks, Fail); !slices.Equal(got, want.fails) {
				t.Errorf("fails %q, want %q", got, want.fails)
			}
			blocking := Blocking(t.Context(), o)
			if got := idsOf(blocking, Fail); !slices.Equal(got, want.blocking) {
				t.Errorf("Blocking fails %q, want %q", got, want.blocking)
			}
			for _, c := range blocking {
				sameWords(t, c, r.Check(c.ID))
			}
			golden(t, name+".txt", strings.ReplaceAll(r.Text(), o.Root, "ROOT"))
		})
	}
}

// sameWords proves that a run refuses with the words of the doctor.
func sameWords(t *testing.T, run, doctor Check) {
	t.Helper()
	if run.Status == Warn { // a suspicion, settled by doing
		return
	}
	if run.What != doctor.What || run.Missing != doctor.Missing || run.Remedy != doctor.Remedy {
		t.Errorf("%s: a run says %q, %q, %q\nand the doctor %q, %q, %q",
			run.ID, run.What, run.Missing, run.Remedy, doctor.What, doctor.Missing, doctor.Remedy)
	}
}

func idsOf(cs []Check, st Status) []string {
	var ids []string
	for _, c := range cs {
		if c.Status == st {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func TestStateAsJSON(t *testing.T) {
	o, _ := loadState(t, "docker-default")
	b, err := json.MarshalIndent(Probe(t.Context(), o), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "docker-default.json", strings.ReplaceAll(string(b), o.Root, "ROOT")+"\n")
}

// TestFailuresExplainThemselves holds for every state: a check that is not in
// order says what is missing, and one that refuses says what to do.
func TestFailuresExplainThemselves(t *testing.T) {
	for name := range states {
		o, _ := loadState(t, name)
		for _, c := range Probe(t.Context(), o).Checks {
			if c.Evidence == "" {
				t.Errorf("%s: %s shows no evidence", name, c.ID)
			}
			if c.Status <= Warn && (c.What == "" || c.Missing == "") {
				t.Errorf("%s: %s is %v and does not say what is missing", name, c.ID, c.Status)
			}
			if c.Status <= Warn && c.Remedy == "" {
				t.Errorf("%s: %s is %v and has no remedy", name, c.ID, c.Status)
			}
			if strings.ContainsAny(c.What+c.Missing+c.Remedy, "{}") {
				t.Errorf("%s: %s has a placeholder left: %q %q %q", name, c.ID, c.What, c.Missing, c.Remedy)
			}
		}
	}
}

func TestExplainPutsTheCauseFirst(t *testing.T) {
	o, k := loadState(t, "login-session")
	k.Fail["proc.mount"] = Finding{Step: "mount proc in a new pid namespace", Errno: errnoOf(errEPERM)}
	got := idsOf(Explain(t.Context(), o, errEPERM), Fail)
	if want := []string{"proc.mount", "cgroup.memory", "cgroup.pids"}; !slices.Equal(got, want) {
		t.Errorf("after EPERM: %q, want %q", got, want)
	}
	got = idsOf(Explain(t.Context(), o, errEACCES), Fail)
	if want := []string{"cgroup.memory", "cgroup.pids", "proc.mount"}; !slices.Equal(got, want) {
		t.Errorf("after EACCES: %q, want %q", got, want)
	}
	o, _ = loadState(t, "ready")
	if got := Explain(t.Context(), o, errEPERM); got != nil {
		t.Errorf("a machine in order explains an error by %v", got)
	}
}

// TestSilenceIsNoConsent: probes that give no answer fail.
func TestSilenceIsNoConsent(t *testing.T) {
	o, k := loadState(t, "ready")
	k.Err = "probing child \"cell\" gave no answer"
	k.Silent = cellProbes
	r := Probe(t.Context(), o)
	if r.Verdict() != CannotRun {
		t.Errorf("verdict %v", r.Verdict())
	}
	for _, id := range cellProbes {
		if c := r.Check(id); c.Status != Fail || c.Evidence != k.Err {
			t.Errorf("%s: %v, %q", id, c.Status, c.Evidence)
		}
	}
	if (Report{}).Verdict() != CannotRun {
		t.Error("an empty report is not refused")
	}
}

func TestVerdictsAndNames(t *testing.T) {
	for v, code := range map[Verdict]int{Ready: 0, Degraded: 1, CannotRun: 2} {
		if v.ExitCode() != code {
			t.Errorf("%v ends with %d, want %d", v, v.ExitCode(), code)
		}
	}
	allowed := Check{Status: Fail, Blocking: BlockUnlessAllowed}
	harmless := Check{Status: Fail, Blocking: BlockNever}
	for _, c := range []struct {
		checks []Check
		want   Verdict
	}{
		{[]Check{{Status: OK}, {Status: Info}}, Ready},
		{[]Check{{Status: OK}, {Status: Warn}}, Degraded},
		{[]Check{{Status: OK}, harmless}, Degraded},
		{[]Check{{Status: OK}, allowed}, CannotRun},
		{[]Check{{}}, CannotRun},
	} {
		if got := (Report{Checks: c.checks}).Verdict(); got != c.want {
			t.Errorf("%v gives %v, want %v", c.checks, got, c.want)
		}
	}
	var s Status
	if err := s.UnmarshalText([]byte("warn")); err != nil || s != Warn {
		t.Errorf("warn reads as %v, %v", s, err)
	}
	if err := s.UnmarshalText([]byte("Warn")); err == nil {
		t.Error("a name in another case is taken")
	}
	var e Errno
	if err := e.UnmarshalText([]byte("ENOSPC")); err != nil || e.Name() != "ENOSPC" {
		t.Errorf("ENOSPC reads as %v, %v", e, err)
	}
	if err := e.UnmarshalText([]byte("ENOTHING")); err == nil {
		t.Error("an unknown error name is taken")
	}
}

// TestTextHidesControlCharacters: a core pattern or label can hold anything.
func TestTextHidesControlCharacters(t *testing.T) {
	c := Check{ID: "x", Status: Warn, What: "w\x1b[2J", Evidence: "a\nb\r\x07", Missing: "m\u202e", Remedy: "r"}
	var b strings.Builder
	c.text(&b, 3)
	for _, r := range strings.ReplaceAll(b.String(), "\n", "") {
		if r < ' ' || r == '\u202e' {
			t.Errorf("%q holds %q", b.String(), r)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want 4: %q", n, b.String())
	}
}
