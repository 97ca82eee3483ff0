package audit

import (
	"os"
	"strings"
	"testing"
)

// The sums that others counted are held against the records: who writes the log
// cannot leave out what they have seen.
func TestTotals(t *testing.T) {
	calls := func(more ...Event) []Event {
		return append([]Event{
			CallAccepted{Call: 1, Tool: "a"}, CallFinished{Call: 1, Tool: "a", Decision: "done"},
			CallAccepted{Call: 2, Tool: "a"}, CallFinished{Call: 2, Tool: "a", Decision: "failed"},
			CallRefused{Tool: "b"},
			CallAccepted{Call: 3, Tool: "a"}, CallFinished{Call: 3, Tool: "a", Decision: "unknown"},
			CallAccepted{Call: 4, Tool: "a"}, CallDiscarded{Call: 4, Tool: "a"},
		}, more...)
	}
	right := BridgeTotals{Accepted: 5, Done: 2, Failed: 1, Refused: 1, Unknown: 2}
	with := func(change func(*BridgeTotals)) BridgeTotals {
		e := right
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		events []Event
		want   Reason
	}{
		"right":                     {calls(right), ""},
		"ends twice":                {calls(CallDiscarded{Call: 3, Tool: "a"}, right), ""},
		"ends again afterwards":     {calls(right, CallDiscarded{Call: 3, Tool: "a"}), ""},
		"more refused than listed":  {calls(with(func(e *BridgeTotals) { e.Refused, e.Folded = 8, 7 })), ""},
		"a call is missing":         {calls(with(func(e *BridgeTotals) { e.Done++ })), Gap},
		"a failure is missing":      {calls(with(func(e *BridgeTotals) { e.Failed++ })), Gap},
		"a refusal is missing":      {calls(with(func(e *BridgeTotals) { e.Refused++ })), Gap},
		"an open end is missing":    {calls(with(func(e *BridgeTotals) { e.Unknown++ })), Gap},
		"a call nobody counted":     {calls(with(func(e *BridgeTotals) { e.Done-- })), Gap},
		"a blocked call is missing": {[]Event{BlockedCounts{Total: 5, Folded: 3}}, Gap}, // begin has one
		"blocked calls":             {[]Event{SyscallDenied{Call: "bpf"}, BlockedCounts{Total: 5, Folded: 3}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			l := p.open(t, Options{})
			r := begin(t, l)
			must(t, r.Append(c.events...))
			_, err := r.Close(RunEnd{})
			must(t, err)
			must(t, l.Close())
			rep := p.verify(t, VerifyOptions{}, c.want)
			if c.want != "" && (len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].What, "counted")) {
				t.Errorf("the problems are %v", rep.Problems)
			}
			if c.want == "" && len(rep.Runs[0].Unfinished) != 0 {
				t.Errorf("calls without an end: %v", rep.Runs[0].Unfinished)
			}
		})
	}
}

// Who changes a record that is counted changes a sum, too. What is told is that
// the record was changed: where the checksum was left alone, and where it was
// made right and the sum stands before the checkpoint that shows it.
func TestTotalsOfAChangedRecord(t *testing.T) {
	const from, to = `"event":"socket.blocked"`, `"event":"socket.allowed"`
	for name, change := range map[string]func(t *testing.T, file string){
		"as it is": func(t *testing.T, file string) {
			b, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, []byte(strings.Replace(string(b), from, to, 1)), 0o600))
		},
		"with its checksum": func(t *testing.T, file string) {
			list := pieces(t, file)
			i := recordAt(t, list, 2)
			list[i].payload = strings.Replace(list[i].payload, from, to, 1)
			forge(t, file, list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			l := p.open(t, Options{})
			r, err := l.Run(RunStart{Plan: "sha256:00"})
			must(t, err)
			must(t, r.Append(ProgramStart{Program: "python3"}, SocketBlocked{Call: "connect", Address: "192.0.2.1", Port: 443}, BlockedCounts{Total: 1}))
			_, err = r.Close(RunEnd{})
			must(t, err)
			must(t, l.Close())
			p.verify(t, VerifyOptions{}, "")
			change(t, p.run(r.ID()))
			p.verify(t, VerifyOptions{}, RootMismatch)
		})
	}
}
