package server

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/metrics"
)

// metrics are the numbers of a server: those of its Runtime, and its own. None
// has a name in it that a program or a caller chose.
func (s *Server) metrics() []metrics.Metric {
	draining := 0.0
	if s.isDraining() {
		draining = 1
	}
	var list []metrics.Metric
	if rt := s.options.Runtime; rt != nil {
		list = metrics.Of(rt.Stats(), rt.Security())
	}
	own := func(name, help string, v float64) metrics.Metric {
		return metrics.Metric{Name: name, Kind: metrics.Gauge, Help: help, Samples: metrics.One(v)}
	}
	return append(list,
		own("isolate_runs_running", "Runs that go on.", float64(s.runs.count())),
		own("isolate_sandboxes_kept", "Sandboxes that callers keep.", float64(s.kept.count())),
		own("isolate_connections", "Open connections.", float64(len(s.room)-1)), // one is for the next
		own("isolate_draining", "1 when the server takes nothing new.", draining),
		own("isolate_start_time_seconds", "When the server started, in Unix time.", float64(s.began.UnixMilli())/1e3),
	)
}

// write writes a family in the text format of Prometheus (version 0.0.4), by
// hand: these few numbers need no registry, and Prometheus's own would be linked
// into every command.
func write(w io.Writer, m metrics.Metric) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Kind)
	for _, value := range slices.Sorted(maps.Keys(m.Samples)) {
		label := ""
		if m.Label != "" {
			label = fmt.Sprintf("{%s=%q}", m.Label, value) // reasons are plain words
		}
		fmt.Fprintf(w, "%s%s %v\n", m.Name, label, m.Samples[value])
	}
	writeHistograms(w, m)
}

// writeHistograms writes the buckets, the sum and the count of each label.
func writeHistograms(w io.Writer, m metrics.Metric) {
	for _, value := range slices.Sorted(maps.Keys(m.Histograms)) {
		h := m.Histograms[value]
		for i, n := range h.Buckets {
			fmt.Fprintf(w, "%s_bucket{%s=%q,le=\"%v\"} %d\n", m.Name, m.Label, value, isolate.HistogramBounds[i].Seconds(), n)
		}
		fmt.Fprintf(w, "%s_bucket{%s=%q,le=\"+Inf\"} %d\n", m.Name, m.Label, value, h.Count)
		fmt.Fprintf(w, "%s_sum{%s=%q} %v\n%s_count{%s=%q} %d\n", m.Name, m.Label, value, h.Sum.Seconds(), m.Name, m.Label, value, h.Count)
	}
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	var b strings.Builder
	for _, m := range s.metrics() {
		write(&b, m)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, b.String())
	return nil
}

// ServeMetrics serves what needs no right at all on l, for programs that
// cannot use a Unix socket, until the function that it returns is called.
func (s *Server) ServeMetrics(l net.Listener) (stop func()) {
	h := &http.Server{Handler: s.handler(levelMetrics), ReadHeaderTimeout: greetTime, IdleTimeout: idleTime, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	return func() {
		h.Close()
		<-done
	}
}
