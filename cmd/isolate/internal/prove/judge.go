package prove

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/audit"
)

// records are those of a run, as the log has them.
type records struct {
	blocked  []entry
	accepted []int64 // calls of the tool
	finished []int64
	refused  int64 // in all, by the last records of the run
	unrouted int64 // what the network had no route for
	counts   entry // the record that says so
}

// entry is a record of a refused call, with what identifies it.
type entry struct {
	seq   int64
	event string
	// call, where and errno are compared with an attempt.
	call, where, errno string
	taken              bool
}

func (r *records) read(logs, run string) error {
	return audit.Records(logs, run, func(rec audit.Record) error {
		e, err := rec.Decode()
		if err != nil {
			return err
		}
		switch e := e.(type) {
		case audit.SocketBlocked:
			where := e.Family + " " + e.Type
			if e.Address != "" {
				where = net.JoinHostPort(e.Address, strconv.Itoa(e.Port))
			}
			r.blocked = append(r.blocked, entry{seq: rec.Seq, event: string(rec.Event), call: e.Call, where: where, errno: e.Errno})
		case audit.SyscallDenied:
			r.blocked = append(r.blocked, entry{seq: rec.Seq, event: string(rec.Event), call: e.Call, errno: e.Errno})
		case audit.CallAccepted:
			if e.Tool == toolName {
				r.accepted = append(r.accepted, rec.Seq)
			}
		case audit.CallFinished:
			if e.Tool == toolName && e.Decision == "done" {
				r.finished = append(r.finished, rec.Seq)
			}
		case audit.BlockedCounts:
			r.refused, r.unrouted = e.Total, e.Unrouted
			r.counts = entry{seq: rec.Seq, event: string(rec.Event)}
		}
		return nil
	})
}

// find takes the record of an attempt out of the list.
func (r *records) find(a attempt, o outcome) (entry, bool) {
	for i := range r.blocked {
		e := &r.blocked[i]
		if !e.taken && e.call == o.Call && e.errno == o.Errno && e.where == a.where() {
			e.taken = true
			return *e, true
		}
	}
	return entry{}, false
}

// where is what the record of an attempt says of its socket.
func (a attempt) where() string {
	switch a.Deed {
	case systemCall:
		return ""
	case makeSocket:
		return families[a.Family] + " " + types[a.Type]
	}
	return a.To
}

var families = map[int]string{unix.AF_INET: "AF_INET", unix.AF_PACKET: "AF_PACKET", unix.AF_VSOCK: "AF_VSOCK", unix.AF_NETLINK: "AF_NETLINK"}

var types = map[int]string{unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW"}

// judge makes the rows.
func (r *Report) judge(l *listeners, out []outcome, in insideRun) {
	r.Held = len(r.Problems) == 0
	if r.Problems == nil {
		r.Problems = []string{}
	}
	for _, a := range l.attempts {
		if why, absent := l.absent[a.Name]; absent {
			r.Rows = append(r.Rows, Row{Attempt: a.Name, Verdict: Absent, Why: why})
		}
	}
	for _, a := range in.attempts {
		row := Row{Attempt: a.Name, To: a.To}
		if a.Deed == makeSocket {
			row.To = a.where()
		}
		o, tried := find(in.outcomes, a.Name)
		if !tried {
			o = outcome{Skipped: true}
		}
		row.Call, row.Inside = o.Call, o.Errno
		switch {
		case o.Skipped:
			row.Verdict, row.Why = Unproven, "not tried: a listener of the host was reached before"
		case a.record == called:
			row.judgeCall(a, o, in)
		default:
			row.judge(a, o, &in.log)
			row.compare(l, a, out)
		}
		r.Held = r.Held && (row.Verdict == Held || row.Verdict == Absent)
		r.Rows = append(r.Rows, row)
	}
}

func find(list []outcome, name string) (outcome, bool) {
	i := slices.IndexFunc(list, func(o outcome) bool { return o.Name == name })
	if i < 0 {
		return outcome{}, false
	}
	return list[i], true
}

// judge is of the answer of the kernel, and of its record.
func (row *Row) judge(a attempt, o outcome, recs *records) {
	row.Verdict = Held
	e, found := entry{}, false
	switch a.record {
	case listed:
		e, found = recs.find(a, o)
	case counted: // there is one attempt of the kind
		e, found = recs.counts, recs.unrouted == 1
	}
	if found {
		row.Event, row.Records = e.event, []int64{e.seq}
	}
	switch {
	case o.got():
		row.Verdict, row.Why = Leak, "it succeeded"
	case a.noFamily(o):
		row.Verdict, row.Why = Absent, "the kernel has no IPv6"
	case !a.kept(o):
		row.Verdict, row.Why = Unexpected, "refused in another way: want "+strings.Join(a.errnos, " or ")
	case a.record != nothing && !found:
		row.Verdict, row.Why = Unrecorded, "no record of it is in the log"
	}
}

// compare is of what the listeners heard.
func (row *Row) compare(l *listeners, a attempt, out []outcome) {
	if !slices.ContainsFunc(l.attempts, func(b attempt) bool { return b.Name == a.Name }) {
		return
	}
	o, _ := find(out, a.Name)
	row.Outside = o.Errno
	switch {
	case o.Answered && l.reached(outside, a.Name):
		row.Outside = "reached"
	case row.Outside == "":
		row.Outside = "no answer"
	}
	if l.reached(inside, a.Name) {
		row.Verdict, row.Why = Leak, "the listener on the host was reached"
	} else if row.Verdict == Held && row.Outside != "reached" {
		row.Verdict, row.Why = Unproven, "the listener was not reached from outside either"
	}
}

// judgeCall is of the tool call, which has to work, and to be recorded before
// and after.
func (row *Row) judgeCall(a attempt, o outcome, in insideRun) {
	row.To = toolName
	row.Event, row.Records = "call.accepted, call.finished", slices.Concat(in.log.accepted, in.log.finished)
	switch {
	case !o.Answered:
		row.Verdict, row.Why = Failed, "the program got no answer"
	case in.heard != a.Token:
		row.Verdict, row.Why = Failed, "the tool was not called with what the program said"
	case len(in.log.accepted) != 1 || len(in.log.finished) != 1:
		row.Verdict, row.Why = Unrecorded, fmt.Sprintf("the log has %d beginnings and %d ends of it", len(in.log.accepted), len(in.log.finished))
	default:
		row.Verdict = Held
	}
}
