// Package metrics gives the numbers of a Runtime their names and their formulae:
// docs/metrics.md in code, for whoever shows them, as text of Prometheus or
// through OpenTelemetry.
//
// It counts nothing itself, and keeps, writes and sends nothing. It needs no
// kernel.
package metrics

import (
	"github.com/isolate-run/isolate"
)

// Kind is what may be done with a number.
type Kind string

// The kinds, in the words of Prometheus.
const (
	Counter   Kind = "counter"   // only grows; a rate means something
	Gauge     Kind = "gauge"     // goes up and down
	Histogram Kind = "histogram" // counts of durations
)

// Metric is one family of numbers.
type Metric struct {
	Name string
	Kind Kind
	Help string
	// Label is the name of the label of samples; empty means that there is
	// one sample without.
	Label   string
	Samples map[string]float64
	// Histograms take the place of Samples, for the kind Histogram. The bounds
	// are isolate.HistogramBounds.
	Histograms map[string]isolate.Histogram
}

// One is a sample without a label.
func One(v float64) map[string]float64 { return map[string]float64{"": v} }

// Of are the metrics of a Runtime. None has a name in it that a program or a
// caller chose.
func Of(p isolate.Stats, s isolate.SecurityStats) []Metric {
	return append(ofPool(p), ofSecurity(s)...)
}

func ofPool(p isolate.Stats) []Metric {
	ended := map[string]float64{}
	for reason, n := range p.Runs {
		ended[string(reason)] = float64(n)
	}
	return []Metric{
		{Name: "isolate_runs_total", Kind: Counter, Help: "Runs that have ended, by reason.", Label: "reason", Samples: ended},
		{Name: "isolate_sandboxes", Kind: Gauge, Help: "Sandboxes in use or being taken down.", Samples: One(float64(p.Sandboxes))},
		{Name: "isolate_sandboxes_max", Kind: Gauge, Help: "Most sandboxes at once.", Samples: One(float64(p.MaxSandboxes))},
		{Name: "isolate_sandboxes_ahead", Kind: Gauge, Help: "Sandboxes made ahead.", Samples: One(float64(p.Spares))},
		{Name: "isolate_sandboxes_taken_total", Kind: Counter, Help: "Sandboxes taken, made ahead or made while the caller waited.", Label: "made", Samples: map[string]float64{"ahead": float64(p.Ahead), "now": float64(p.Made)}},
		{Name: "isolate_cells", Kind: Gauge, Help: "Root file systems kept ready.", Samples: One(float64(p.Cells))},
		{Name: "isolate_callers_waiting", Kind: Gauge, Help: "Callers that wait for a sandbox.", Samples: One(float64(p.Waiting))},
		{Name: "isolate_callers_refused_total", Kind: Counter, Help: "Callers turned away because too many waited.", Samples: One(float64(p.Refused))},
		{Name: "isolate_callers_waited_seconds_total", Kind: Counter, Help: "Time that callers waited for a sandbox.", Samples: One(p.Waited.Seconds())},
		{Name: "isolate_blocked_calls_total", Kind: Counter, Help: "System calls refused and recorded, in ended runs.", Samples: One(float64(p.Blocked))},
		{Name: "isolate_tear_down_errors_total", Kind: Counter, Help: "Sandboxes and cells that did not go as they should.", Samples: One(float64(p.TearDownErrors))},
	}
}

// ofSecurity are the five of docs/metrics.md, each with the counts that it
// is made of. A ratio without anything to divide by has no sample.
func ofSecurity(s isolate.SecurityStats) []Metric {
	attempts := floats(s.Attempts)
	var refused float64
	for _, n := range attempts {
		refused += n
	}
	granted, full, ungranted := float64(s.Granted), float64(s.Full), float64(s.Ungranted)
	completeness := map[string]float64{}
	for what, counted := range s.Counted {
		if counted > 0 {
			completeness[what] = float64(s.Recorded[what]) / float64(counted)
		}
	}
	return []Metric{
		{Name: "isolate_socket_attempts_total", Kind: Counter, Help: "Refused attempts to reach something, by class of destination.", Label: "class", Samples: attempts},
		{Name: "isolate_flows_opened_total", Kind: Counter, Help: "Connections let out, by what allowed them.", Label: "by", Samples: map[string]float64{"rule": granted, "full": full, "nothing": ungranted}},
		{Name: "isolate_default_deny_ratio", Kind: Gauge, Help: "Part of what no rule allowed that was refused.", Samples: ratio(refused, refused+ungranted)},
		{Name: "isolate_allow_list_coverage_ratio", Kind: Gauge, Help: "Part of the connections let out that a rule of an allow-list names.", Samples: ratio(granted, granted+full+ungranted)},
		{Name: "isolate_tool_call_seconds", Kind: Histogram, Help: "Time of a tool call without that of the tool and of persons, by transport.", Label: "via", Histograms: s.CallTime},
		{Name: "isolate_audit_counted_total", Kind: Counter, Help: "What happened in ended runs that are recorded, counted beside the log.", Label: "what", Samples: floats(s.Counted)},
		{Name: "isolate_audit_recorded_total", Kind: Counter, Help: "What of it the logs have.", Label: "what", Samples: floats(s.Recorded)},
		{Name: "isolate_audit_completeness_ratio", Kind: Gauge, Help: "Part of what was counted that the logs have.", Label: "what", Samples: completeness},
	}
}

func ratio(part, whole float64) map[string]float64 {
	if whole == 0 {
		return nil
	}
	return One(part / whole)
}

func floats(m map[string]uint64) map[string]float64 {
	out := make(map[string]float64, len(m))
	for k, n := range m {
		out[k] = float64(n)
	}
	return out
}
