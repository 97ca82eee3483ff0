package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/testenv"
)

// killedShort is how often every test kills the command, killedLong a release's.
const (
	killedShort = 10
	killedLong  = 200
)

// killedProgram calls the tool from several threads and says what was answered.
const killedProgram = `import os, sys
from concurrent.futures import ThreadPoolExecutor
from isolate_tools import call
def one(n):
    call("mark", {"n": f"{sys.argv[1]}-{n}"})
    os.write(1, f"{sys.argv[1]}-{n}\n".encode())
with ThreadPoolExecutor(3) as pool:
    list(pool.map(one, range(24)))
`

// markTool does something that stays: it adds its argument to a file. It is
// given none when isolate dies while it starts the tool.
const markTool = `#!/bin/sh
read -r args || [ "$args" ] || exit 1
echo "$args" >>%q
sleep 0.003
echo 1
`

// killed is a log whose writers are killed.
type killed struct {
	t                   *testing.T
	dir, log, key, mark string
	// answered is what programs saw answered, by the argument of the call.
	answered map[string]bool
	runs     map[string]bool // whose records have been looked at
	accepted map[string]bool // by the argument
	// recovered and unfinished count what the kills left.
	recovered, unfinished int
}

// TestCommandKilled kills isolate at random moments of "isolate run --audit".
// The log recovers and verifies; whatever a tool did, and whatever a program
// saw answered, is in it as accepted; calls without an end are shown.
func TestCommandKilled(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	dir := t.TempDir()
	k := &killed{
		t: t, dir: dir, log: filepath.Join(dir, "log"), key: filepath.Join(dir, "key"), mark: filepath.Join(dir, "marks"),
		answered: map[string]bool{}, runs: map[string]bool{}, accepted: map[string]bool{},
	}
	k.write("mark", fmt.Sprintf(markTool, k.mark), 0o755)
	k.write("calls.py", killedProgram, 0o644)
	rounds := killedShort
	if os.Getenv("ISOLATE_SOAK") != "" {
		rounds = killedLong
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))

	groups := cgroupsBelow(t)
	key, err := audit.LoadKey(k.key)
	if err != nil {
		t.Fatal(err)
	}
	whole, called := k.run("whole", moment{})
	k.check(key)
	for n := range rounds {
		m := moment{of: started, after: time.Duration(random.Int64N(int64(whole)))}
		if n%2 == 1 {
			m = moment{of: calling, after: time.Duration(random.Int64N(int64(called)))}
		}
		k.run(fmt.Sprint(n), m)
		k.check(key)
	}
	k.run("last", moment{}) // removes what those before left behind
	k.check(key)
	if left := cgroupsBelow(t); len(left) > len(groups) {
		t.Errorf("cgroups are left: %v", left)
	}
	k.checkEffects()
	k.checkWords(key)
	t.Logf("%d kills: %d runs recorded, %d recovered, %d calls accepted, %d answered, %d accepted without an end",
		rounds, len(k.runs), k.recovered, len(k.accepted), len(k.answered), k.unfinished)
	if k.recovered == 0 || rounds == killedLong && k.unfinished == 0 {
		t.Error("nobody was killed at work")
	}
}

// moment is when the command is killed: the zero value is never.
type moment struct {
	of    phase
	after time.Duration
}

type phase int

const (
	never   phase = iota
	started       // since its start, also while the sandbox is built
	calling       // since the program saw its first call answered
)

// run runs the program, whose calls are told from those of others by name, and
// gives how long that took, and how long since the first answer.
func (k *killed) run(name string, m moment) (whole, called time.Duration) {
	k.t.Helper()
	cmd := exec.Command("isolate", "run", "--no-server", "--allow", "weak-limits", "--parallel", "3",
		"--audit", k.log, "--audit-key", k.key, "--audit-args", "calls.py", "--tool", "mark=./mark", "--", name)
	cmd.Dir = k.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	began, first := time.Now(), time.Time{}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	kill := func(p phase) {
		if m.of == p {
			time.AfterFunc(m.after, func() { _ = cmd.Process.Kill() })
		}
	}
	kill(started)
	// The program's end of the pipe closes as well: it does not outlive isolate.
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if first.IsZero() {
			first = time.Now()
			kill(calling)
		}
		k.answered[strings.TrimSpace(line)] = true
	}
	if err := cmd.Wait(); err != nil && !(m.of != never && strings.Contains(err.Error(), "killed")) {
		k.t.Errorf("round %s: %v", name, err)
	}
	return time.Since(began), time.Since(first)
}

// check looks at the log as the kill left it, lets it recover as the next
// command would, and looks at it again.
func (k *killed) check(key *audit.Key) {
	k.t.Helper()
	code, left := k.verify(key)
	running := func(s audit.RunState) bool { return s.State == audit.StateRunning }
	// A child of the command, killed before it became the tool, has the lock until it is gone.
	for began := time.Now(); slices.ContainsFunc(left.Runs, running); code, left = k.verify(key) {
		if time.Since(began) > 60*time.Second {
			k.t.Fatalf("somebody still writes: %+v", left.Runs)
		}
	}
	log, err := audit.Open(k.log, audit.Options{Key: key})
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		k.t.Fatalf("the log does not recover: %v", err)
	}
	after, report := k.verify(key)
	if after != 0 || len(report.Problems) > 0 {
		k.t.Fatalf("the log that has recovered is not in order: %d, %v", after, report.Problems)
	}
	recovered := 0
	for _, s := range report.Runs {
		if !k.runs[s.ID] {
			k.runs[s.ID] = true
			k.checkRun(s)
			if s.State == audit.StateRecovered {
				recovered++
			}
		}
	}
	// Before, it was said that an end is missing, and no worse.
	missing := code == audit.MissingEnd.ExitCode() || code == audit.Truncated.ExitCode()
	if code != 0 && !missing || recovered > 0 && !missing {
		k.t.Errorf("before it recovered %d runs the log was %d, %v", recovered, code, left.Problems)
	}
	k.recovered += recovered
}

// verify is what "isolate audit verify" says.
func (k *killed) verify(key *audit.Key) (code int, report audit.Report) {
	k.t.Helper()
	cmd := exec.Command("isolate", "audit", "verify", "--json", "--key", key.VerifierKey(), k.log)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		k.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		k.t.Fatalf("audit verify says %q: %v", out, err)
	}
	return cmd.ProcessState.ExitCode(), report
}

// checkRun compares what was said of a run with its records.
func (k *killed) checkRun(s audit.RunState) {
	k.t.Helper()
	open, ended := map[int64]bool{}, false
	err := audit.Records(k.log, s.ID, func(r audit.Record) error {
		e, err := r.Decode()
		switch e := e.(type) {
		case audit.CallAccepted:
			open[e.Call] = true
			k.accepted[k.name(e.Args.Text)] = true
		case audit.CallFinished:
			delete(open, e.Call)
		case audit.CallDiscarded:
			delete(open, e.Call)
		case audit.RunEnd:
			ended = true
		}
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	shown := map[int64]bool{}
	for _, c := range s.Unfinished {
		shown[c.Call] = true
	}
	if !maps.Equal(open, shown) {
		k.t.Errorf("run %s: without an end are %v, shown are %v", s.ID, open, shown)
	}
	if want := map[bool]string{true: audit.StateEnded, false: audit.StateRecovered}[ended]; s.State != want {
		k.t.Errorf("run %s is %s, and its end is there: %t", s.ID, s.State, ended)
	}
	k.unfinished += len(open)
}

// name gives the argument of a call.
func (k *killed) name(args string) string {
	k.t.Helper()
	var a struct {
		N string `json:"n"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil || a.N == "" {
		k.t.Fatalf("the arguments of a call are %q: %v", args, err)
	}
	return a.N
}

// checkEffects: nothing was done, and nothing answered, that is not recorded.
func (k *killed) checkEffects() {
	k.t.Helper()
	marks, err := os.ReadFile(k.mark)
	if err != nil {
		k.t.Fatal(err)
	}
	for line := range strings.Lines(string(marks)) {
		if n := k.name(line); !k.accepted[n] {
			k.t.Errorf("the tool was called with %s, and the log does not have it", n)
		}
	}
	for n := range k.answered {
		if !k.accepted[n] {
			k.t.Errorf("the program saw %s answered, and the log does not have it", n)
		}
	}
}

// checkWords: people are shown the calls without an end.
func (k *killed) checkWords(key *audit.Key) {
	k.t.Helper()
	out, err := exec.Command("isolate", "audit", "verify", "--key", key.VerifierKey(), k.log).Output()
	if shown := strings.Count(string(out), "was accepted and has no end"); err != nil || shown != k.unfinished {
		k.t.Errorf("%d calls without an end are shown, there are %d: %v, %s", shown, k.unfinished, err, out)
	}
}

func (k *killed) write(name, text string, mode os.FileMode) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), mode); err != nil {
		k.t.Fatal(err)
	}
}
