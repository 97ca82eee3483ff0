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
)

// metric is one family in the text format of Prometheus (version 0.0.4). It is
// written by hand: these few numbers need no registry, and Prometheus's own
// would be linked into every command.
type metric struct {
	name, kind, help string
	// label is the name of the label of samples; empty means that there is
	// one sample without.
	label   string
	samples map[string]float64
	// histograms take the place of samples, for the kind "histogram".
	histograms map[string]isolate.Histogram
}

func one(v float64) map[string]float64 { return map[string]float64{"": v} }

// metrics are the numbers of a server. None has a name in it that a program or
// a caller chose.
func (s *Server) metrics() []metric {
	st := s.stats()
	p := st.Pool
	ended := map[string]float64{}
	for reason, n := range p.Runs {
		ended[reason] = float64(n)
	}
	draining := 0.0
	if st.Draining {
		draining = 1
	}
	var security []metric
	if s.options.Runtime != nil {
		security = securityMetrics(s.options.Runtime.Security())
	}
	return append([]metric{
		{name: "isolate_runs_total", kind: "counter", help: "Runs that have ended, by reason.", label: "reason", samples: ended},
		{name: "isolate_runs_running", kind: "gauge", help: "Runs that go on.", samples: one(float64(st.Running))},
		{name: "isolate_sandboxes", kind: "gauge", help: "Sandboxes in use or being taken down.", samples: one(float64(p.Sandboxes))},
		{name: "isolate_sandboxes_max", kind: "gauge", help: "Most sandboxes at once.", samples: one(float64(p.MaxSandboxes))},
		{name: "isolate_sandboxes_kept", kind: "gauge", help: "Sandboxes that callers keep.", samples: one(float64(st.Kept))},
		{name: "isolate_sandboxes_ahead", kind: "gauge", help: "Sandboxes made ahead.", samples: one(float64(p.Spares))},
		{name: "isolate_sandboxes_taken_total", kind: "counter", help: "Sandboxes taken, made ahead or made while the caller waited.", label: "made", samples: map[string]float64{"ahead": float64(p.Ahead), "now": float64(p.Made)}},
		{name: "isolate_cells", kind: "gauge", help: "Root file systems kept ready.", samples: one(float64(p.Cells))},
		{name: "isolate_callers_waiting", kind: "gauge", help: "Callers that wait for a sandbox.", samples: one(float64(p.Waiting))},
		{name: "isolate_callers_refused_total", kind: "counter", help: "Callers turned away because too many waited.", samples: one(float64(p.Refused))},
		{name: "isolate_callers_waited_seconds_total", kind: "counter", help: "Time that callers waited for a sandbox.", samples: one(p.Waited.Seconds())},
		{name: "isolate_blocked_calls_total", kind: "counter", help: "System calls refused and recorded, in ended runs.", samples: one(float64(p.Blocked))},
		{name: "isolate_tear_down_errors_total", kind: "counter", help: "Sandboxes and cells that did not go as they should.", samples: one(float64(p.TearDownErrors))},
		{name: "isolate_connections", kind: "gauge", help: "Open connections.", samples: one(float64(st.Connections))},
		{name: "isolate_draining", kind: "gauge", help: "1 when the server takes nothing new.", samples: one(draining)},
		{name: "isolate_start_time_seconds", kind: "gauge", help: "When the server started, in Unix time.", samples: one(float64(st.Began.UnixMilli()) / 1e3)},
	}, security...)
}

func (m metric) write(w io.Writer) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	for _, value := range slices.Sorted(maps.Keys(m.samples)) {
		label := ""
		if m.label != "" {
			label = fmt.Sprintf("{%s=%q}", m.label, value) // reasons are plain words
		}
		fmt.Fprintf(w, "%s%s %v\n", m.name, label, m.samples[value])
	}
	m.writeHistograms(w)
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	var b strings.Builder
	for _, m := range s.metrics() {
		m.write(&b)
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
