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
	return []metric{
		{"isolate_runs_total", "counter", "Runs that have ended, by reason.", "reason", ended},
		{"isolate_runs_running", "gauge", "Runs that go on.", "", one(float64(st.Running))},
		{"isolate_sandboxes", "gauge", "Sandboxes in use or being taken down.", "", one(float64(p.Sandboxes))},
		{"isolate_sandboxes_max", "gauge", "Most sandboxes at once.", "", one(float64(p.MaxSandboxes))},
		{"isolate_sandboxes_kept", "gauge", "Sandboxes that callers keep.", "", one(float64(st.Kept))},
		{"isolate_sandboxes_ahead", "gauge", "Sandboxes made ahead.", "", one(float64(p.Spares))},
		{"isolate_sandboxes_taken_total", "counter", "Sandboxes taken, made ahead or made while the caller waited.", "made", map[string]float64{"ahead": float64(p.Ahead), "now": float64(p.Made)}},
		{"isolate_cells", "gauge", "Root file systems kept ready.", "", one(float64(p.Cells))},
		{"isolate_callers_waiting", "gauge", "Callers that wait for a sandbox.", "", one(float64(p.Waiting))},
		{"isolate_callers_refused_total", "counter", "Callers turned away because too many waited.", "", one(float64(p.Refused))},
		{"isolate_callers_waited_seconds_total", "counter", "Time that callers waited for a sandbox.", "", one(p.Waited.Seconds())},
		{"isolate_blocked_calls_total", "counter", "System calls refused and recorded, in ended runs.", "", one(float64(p.Blocked))},
		{"isolate_tear_down_errors_total", "counter", "Sandboxes and cells that did not go as they should.", "", one(float64(p.TearDownErrors))},
		{"isolate_connections", "gauge", "Open connections.", "", one(float64(st.Connections))},
		{"isolate_draining", "gauge", "1 when the server takes nothing new.", "", one(draining)},
		{"isolate_start_time_seconds", "gauge", "When the server started, in Unix time.", "", one(float64(st.Began.UnixMilli()) / 1e3)},
	}
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
