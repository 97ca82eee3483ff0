package server

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/isolate-run/isolate"
)

// securityMetrics are the five of docs/metrics.md, each with the counts that it
// is made of. A ratio without anything to divide by has no sample.
func securityMetrics(s isolate.SecurityStats) []metric {
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
	return []metric{
		{name: "isolate_socket_attempts_total", kind: "counter", help: "Refused attempts to reach something, by class of destination.", label: "class", samples: attempts},
		{name: "isolate_flows_opened_total", kind: "counter", help: "Connections let out, by what allowed them.", label: "by", samples: map[string]float64{"rule": granted, "full": full, "nothing": ungranted}},
		{name: "isolate_default_deny_ratio", kind: "gauge", help: "Part of what no rule allowed that was refused.", samples: ratio(refused, refused+ungranted)},
		{name: "isolate_allow_list_coverage_ratio", kind: "gauge", help: "Part of the connections let out that a rule of an allow-list names.", samples: ratio(granted, granted+full+ungranted)},
		{name: "isolate_tool_call_seconds", kind: "histogram", help: "Time of a tool call without that of the tool and of persons, by transport.", label: "via", histograms: s.CallTime},
		{name: "isolate_audit_counted_total", kind: "counter", help: "What happened in ended runs that are recorded, counted beside the log.", label: "what", samples: floats(s.Counted)},
		{name: "isolate_audit_recorded_total", kind: "counter", help: "What of it the logs have.", label: "what", samples: floats(s.Recorded)},
		{name: "isolate_audit_completeness_ratio", kind: "gauge", help: "Part of what was counted that the logs have.", label: "what", samples: completeness},
	}
}

func ratio(part, whole float64) map[string]float64 {
	if whole == 0 {
		return nil
	}
	return one(part / whole)
}

func floats(m map[string]uint64) map[string]float64 {
	out := make(map[string]float64, len(m))
	for k, n := range m {
		out[k] = float64(n)
	}
	return out
}

// writeHistograms writes the buckets, the sum and the count of each label.
func (m metric) writeHistograms(w io.Writer) {
	for _, value := range slices.Sorted(maps.Keys(m.histograms)) {
		h := m.histograms[value]
		for i, n := range h.Buckets {
			fmt.Fprintf(w, "%s_bucket{%s=%q,le=\"%v\"} %d\n", m.name, m.label, value, isolate.HistogramBounds[i].Seconds(), n)
		}
		fmt.Fprintf(w, "%s_bucket{%s=%q,le=\"+Inf\"} %d\n", m.name, m.label, value, h.Count)
		fmt.Fprintf(w, "%s_sum{%s=%q} %v\n%s_count{%s=%q} %d\n", m.name, m.label, value, h.Sum.Seconds(), m.name, m.label, value, h.Count)
	}
}
