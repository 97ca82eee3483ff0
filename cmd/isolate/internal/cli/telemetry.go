package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/isolate-run/isolate"
)

// Telemetry tells a collector of runs; package otlp has it.
type Telemetry interface {
	isolate.Telemetry
	// Close sends what is left, within a bounded time, and says in one line what
	// could not be sent; "" if there is nothing to say.
	Close() string
}

// Exporter makes a Telemetry. Its error says which setting is wrong.
type Exporter func(context.Context, TelemetryWish) (Telemetry, error)

// TelemetryWish is what is to be sent.
type TelemetryWish struct {
	Traces, Logs, Metrics bool
	// Version is that of isolate.
	Version string
	// Failed is told once when something cannot be sent, while it goes on; nil
	// leaves it to Close.
	Failed func(string)
}

// wishOf reads the standard variables of OpenTelemetry that say what is sent.
// Unlike the SDK it sends nothing unless one of them names a collector, or otlp.
func wishOf(getenv func(string) (string, bool)) (w TelemetryWish, err error) {
	get := func(name string) string { v, _ := getenv(name); return strings.TrimSpace(v) }
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return w, nil
	}
	wanted := func(signal string) bool {
		switch exporter := get("OTEL_" + signal + "_EXPORTER"); exporter {
		case "otlp":
		case "none":
			return false
		case "":
			if get("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && get("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") == "" {
				return false
			}
		default:
			err = errors.Join(err, unknownExporter(signal, exporter))
			return false
		}
		for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
			if protocol := get(name); protocol != "" {
				if protocol != "http/protobuf" {
					err = errors.Join(err, unknownProtocol(name, protocol))
				}
				return protocol == "http/protobuf"
			}
		}
		return true
	}
	w.Traces, w.Logs, w.Metrics = wanted("TRACES"), wanted("LOGS"), wanted("METRICS")
	return w, err
}

func (w TelemetryWish) any() bool { return w.Traces || w.Logs || w.Metrics }

// telemetryProgram is the program that has an Exporter.
const telemetryProgram = "isolate-otel"

// telling are the commands that run programs of their own.
var telling = []string{"exec", "run", "shell", "serve"}

// becomeTelling continues as the program that can send telemetry, if that is wanted
// and this one cannot. It returns where that is not so, or if it fails: what
// runs does not depend on it.
func (a *app) becomeTelling(args []string) {
	if a.exporter != nil || len(args) < 2 || !slices.Contains(telling, args[1]) {
		return
	}
	w, err := wishOf(a.getenv)
	if !w.any() {
		a.untold(err)
		return
	}
	path := isolate.Helper(telemetryProgram)
	if path == "" {
		a.untold(errNoTelemetryProgram)
		return
	}
	a.untold(syscall.Exec(path, args, os.Environ()))
}

// untold notes why OpenTelemetry is told less than was wished.
func (a *app) untold(err error) {
	if err != nil && a.unsent == "" {
		a.unsent = nothingSent(err)
	}
}

// openTelemetry begins to send what is wished; the function it returns ends
// that. For a single command there are no metrics: its counts would be those of
// one run.
func (a *app) openTelemetry(ctx context.Context, metrics wishMetrics, failed func(string)) (isolate.Telemetry, func()) {
	nothing := func() {}
	if a.exporter == nil {
		return nil, nothing
	}
	w, err := wishOf(a.getenv)
	a.untold(err)
	w.Metrics = w.Metrics && metrics == withMetrics
	if !w.any() {
		return nil, nothing
	}
	w.Version, w.Failed = thisRevision(), failed
	t, err := a.exporter(ctx, w)
	if err != nil {
		a.untold(err)
		return nil, nothing
	}
	return t, func() {
		if lost := t.Close(); lost != "" && a.unsent == "" {
			a.unsent = lost
		}
	}
}

// wishMetrics says whether numbers are sent.
type wishMetrics int

const (
	withoutMetrics wishMetrics = iota
	withMetrics
)
