package isolate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/internal/testenv"
)

// attempts are programs that try to get out. Each counts what it tried itself:
// it is the counter that the log is held against.
var attempts = []struct {
	name string
	args []string
	need testenv.Feature
	// listed is how many attempts the filter sees, unrouted how many only the
	// sandbox's network does.
	listed, unrouted int64
}{
	{name: "python", args: []string{"python3", "testdata/python.py"}, need: testenv.Python3, listed: 240, unrouted: 60},
	{name: "curl", args: []string{"sh", "testdata/curl.sh"}, need: testenv.Tool("curl"), listed: 60},
	{name: "node", args: []string{"node", "testdata/node.mjs"}, need: testenv.Node, listed: 200},
	{name: "go", args: []string{"testdata/attempts-go"}, need: testenv.Tool("go"), listed: 200},
	{name: "raw", args: []string{"testdata/attempts-raw"}, need: testenv.GCC, listed: 300},
}

// TestAuditIsComplete: every attempt of 1000, in five languages, over IPv4,
// IPv6, mapped addresses and UDP, is a record or in an exact count.
func TestAuditIsComplete(t *testing.T) {
	a := openAudited(t)
	dir := attemptPrograms(t)
	var listed, unrouted, made int64
	for _, p := range attempts {
		t.Run(p.name, func(t *testing.T) {
			testenv.Require(t, p.need)
			res := a.attempt(t, dir, isolate.Policy{}, p.args...)
			if got, err := strconv.ParseInt(strings.TrimSpace(string(res.Stdout.Kept)), 10, 64); err != nil || got != p.listed+p.unrouted {
				t.Errorf("the program says that it tried %d times (%v), this test wants %d: %s", got, err, p.listed+p.unrouted, res.Stderr.Kept)
			}
			counts := a.checkRecorded(t, res)
			if counts.Total != p.listed || counts.Unrouted != p.unrouted {
				t.Errorf("the log has %+v; %d attempts can be seen by the filter, %d by the network", counts, p.listed, p.unrouted)
			}
			listed, unrouted, made = listed+p.listed, unrouted+p.unrouted, made+p.listed+p.unrouted
		})
	}
	s := a.Security()
	if int64(s.Counted["refused_calls"]) != listed || int64(s.Recorded["refused_calls"]) != listed || int64(s.Attempts["unrouted"]) != unrouted {
		t.Errorf("counted %v, recorded %v, attempts %v; want %d and %d", s.Counted, s.Recorded, s.Attempts, listed, unrouted)
	}
	t.Logf("%d attempts: %d recorded or in a count of refused calls, %d in the count of the network", made, listed, unrouted)
}

// TestAuditIsCompleteInARace: a thread rewrites the address while another
// connects. What was refused is recorded, what got past the filter is counted
// by the network, and nothing is in both or in none.
func TestAuditIsCompleteInARace(t *testing.T) {
	testenv.Require(t, testenv.GCC)
	a := openAudited(t)
	res := a.attempt(t, attemptPrograms(t), isolate.Policy{}, "testdata/attempts-raw", "race", "20000")
	refused, err := strconv.ParseInt(strings.TrimSpace(string(res.Stdout.Kept)), 10, 64)
	counts := a.checkRecorded(t, res)
	if err != nil || refused == 0 || counts.Total+counts.Unrouted != refused {
		t.Errorf("%d were refused (%v), the log has %d, the network counted %d", refused, err, counts.Total, counts.Unrouted)
	}
	t.Logf("%d refused: %d by the filter, %d by the network", refused, counts.Total, counts.Unrouted)
}

// TestAuditOfManyAttempts: the log is bounded and the total exact, and this
// process does not grow; a million with ISOLATE_SOAK, 20,000 without.
func TestAuditOfManyAttempts(t *testing.T) {
	testenv.Require(t, testenv.GCC)
	many := int64(20_000)
	if os.Getenv("ISOLATE_SOAK") != "" {
		many = 1_000_000
	}
	a := openAudited(t)
	dir := attemptPrograms(t)
	a.attempt(t, dir, isolate.Policy{}, "testdata/attempts-raw", "many", "1000") // fills what is kept for ever
	before := residentKiB(t)
	res := a.attempt(t, dir, isolate.Policy{Wall: time.Hour}, "testdata/attempts-raw", "many", strconv.FormatInt(many, 10))
	grown := residentKiB(t) - before
	counts := a.checkRecorded(t, res)
	if counts.Total != many || counts.Folded != many-denial.DefaultMaxEvents {
		t.Errorf("the log has %+v, want %d", counts, many)
	}
	if res.Audit.Size > 2*denial.DefaultMaxEvents {
		t.Errorf("the log has %d records", res.Audit.Size)
	}
	if grown > 16<<10 {
		t.Errorf("this process has grown by %d KiB", grown)
	}
	t.Logf("%d attempts: %d records, this process %+d KiB", many, res.Audit.Size, grown)
}

// attempt runs a program to its end.
func (a audited) attempt(t *testing.T, dir string, p isolate.Policy, args ...string) isolate.Result {
	t.Helper()
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = strings.Replace(arg, "testdata/", "/workspace/", 1)
	}
	res, err := a.Run(t.Context(), p, isolate.Cmd{Args: args, In: []isolate.Input{{Source: dir}}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s %d, %v: %s", res.Reason, res.ExitCode, err, res.Stderr.Kept)
	}
	return res
}

// checkRecorded holds the log of a run against its result.
func (a audited) checkRecorded(t *testing.T, res isolate.Result) (counts audit.BlockedCounts) {
	t.Helper()
	records := int64(0)
	_, list := a.events(t, res.Audit.Run)
	for _, e := range list {
		switch e := e.(type) {
		case audit.BlockedCounts:
			counts = e
		case audit.SocketBlocked, audit.SyscallDenied:
			records++
		}
	}
	if counts.Total != res.Blocked.Total || records+counts.Folded != counts.Total {
		t.Errorf("%d were refused; the log has %d records and %+v", res.Blocked.Total, records, counts)
	}
	return counts
}

// attemptPrograms is a directory with the programs, those in C and Go compiled
// where that is possible.
func attemptPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/attempts")); err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string][]string{
		"gcc": {"-O1", "-pthread", "-o", filepath.Join(dir, "attempts-raw"), filepath.Join(dir, "raw.c")},
		"go":  {"build", "-o", filepath.Join(dir, "attempts-go"), filepath.Join(dir, "attempts.go")},
	} {
		if _, err := exec.LookPath(tool); err != nil {
			continue // the tests that need it skip
		}
		cmd := exec.Command(tool, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

func residentKiB(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
