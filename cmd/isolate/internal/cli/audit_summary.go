package cli

import (
	"fmt"
	"time"

	"github.com/isolate-run/isolate/audit"
)

// runSummary is what a run came to, as its log says.
type runSummary struct {
	ID      string
	Start   audit.RunStart
	Began   time.Time
	Took    time.Duration
	Program string
	File    string            // what isolate run ran; empty for other commands
	End     *audit.RunEnd     // nil: it goes on, or its process died
	Last    *audit.ProgramEnd // of the last program; nil if none has ended
	Calls   int64
	Blocked int64

	// The rest is for the report.
	Records int64
	Lines   []timelineLine
	Omitted int64
	ByDest  map[string]int64
	ByExe   map[string]int64
	Counts  audit.BlockedCounts
	Tools   []*toolCall
	Limits  []audit.LimitHit
	open    map[int64]*toolCall
}

// listedRun is a run in the output of audit show --json.
type listedRun struct {
	Run     string    `json:"run"`
	Began   time.Time `json:"began"`
	Took    int64     `json:"took_us"`
	Program string    `json:"program,omitempty"`
	File    string    `json:"file,omitempty"`
	// Reason and ExitCode are of the last program; absent if none has ended.
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// State is how the log of the run ended; absent if it has no end.
	State   string `json:"state,omitempty"`
	Calls   int64  `json:"calls"`
	Blocked int64  `json:"blocked"`
}

func listRun(s runSummary) listedRun {
	l := listedRun{Run: s.ID, Began: s.Began, Took: s.Took.Microseconds(), Program: s.Program, File: s.File, Calls: s.Calls, Blocked: s.Blocked}
	if s.End != nil {
		l.State = s.End.Reason
	}
	if s.Last != nil {
		l.Reason, l.ExitCode = s.Last.Reason, &s.Last.ExitCode
	}
	return l
}

// timelineLine is one record in the report.
type timelineLine struct {
	Seq   int64
	At    time.Duration
	Event string
	Text  string
}

// toolCall is a call with its end.
type toolCall struct {
	Call          int64
	Tool, ID      string
	Args          string
	Decision      string
	Wall          time.Duration
	Request, Resp int64
}

// sumUp reads a run. It keeps the texts of at most lines records.
func sumUp(dir, id string, lines int) (runSummary, error) {
	s := runSummary{ID: id, ByDest: map[string]int64{}, ByExe: map[string]int64{}, open: map[int64]*toolCall{}}
	var began time.Duration
	err := audit.Records(dir, id, func(r audit.Record) error {
		if r.Seq == 0 {
			s.Began, began = r.Time, r.Mono
		}
		s.Records++
		s.Took = r.Mono - began
		if len(s.Lines) < lines {
			s.Lines = append(s.Lines, timelineLine{r.Seq, s.Took, string(r.Event), dataLine(r.Data)})
		} else {
			s.Omitted++
		}
		e, err := r.Decode()
		if err != nil {
			return nil // of a later version: the line is there
		}
		s.take(e)
		return nil
	})
	return s, err
}

func (s *runSummary) take(e audit.Event) {
	switch e := e.(type) {
	case audit.RunStart:
		s.Start = e
	case audit.ProgramStart:
		if s.Program == "" {
			s.Program, s.File = e.Program, e.File
		}
	case audit.ProgramEnd:
		s.Last = &e
	case audit.RunEnd:
		s.End, s.Blocked = &e, e.Blocked
	case audit.SocketBlocked:
		s.Blocked++
		to := e.Address
		if to == "" {
			to = e.Family + " " + e.Type
		} else if e.Port != 0 {
			to = fmt.Sprintf("%s port %d", to, e.Port)
		}
		s.ByDest[e.Call+" → "+to]++
		s.ByExe[e.Exe]++
	case audit.SyscallDenied:
		s.Blocked++
		s.ByDest[e.Call]++
		s.ByExe[e.Exe]++
	case audit.BlockedCounts:
		s.Counts = e
	case audit.LimitHit:
		s.Limits = append(s.Limits, e)
	default:
		s.takeCall(e)
	}
}

// maxListed bounds the calls that are kept for the report.
const maxListed = 2000

func (s *runSummary) takeCall(e audit.Event) {
	add := func(c *toolCall) {
		s.Calls++
		if len(s.Tools) < maxListed {
			s.Tools = append(s.Tools, c)
			s.open[c.Call] = c
		}
	}
	switch e := e.(type) {
	case audit.CallAccepted:
		add(&toolCall{Call: e.Call, Tool: e.Tool, ID: e.ID, Args: argsText(e.Args), Decision: "accepted, no end", Request: e.Request})
	case audit.CallRefused:
		add(&toolCall{Call: e.Call, Tool: e.Tool, ID: e.ID, Args: argsText(e.Args), Decision: "refused: " + e.Code, Wall: micros(e.Wall), Request: e.Request})
	case audit.CallFinished:
		if c := s.open[e.Call]; c != nil {
			c.Decision, c.Wall, c.Resp = e.Decision, micros(e.Wall), e.Response
			if e.Code != "" {
				c.Decision += ": " + e.Code
			}
			delete(s.open, e.Call)
		}
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func argsText(p *audit.Payload) string {
	switch {
	case p == nil:
		return ""
	case p.Text != "":
		return p.Text
	}
	return fmt.Sprintf("%d bytes, %s", p.Size, p.Digest)
}
