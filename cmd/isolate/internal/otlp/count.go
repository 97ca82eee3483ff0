package otlp

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/isolate-run/isolate/internal/plaintext"
)

// signal is a kind of telemetry of which each item counts.
type signal string

const (
	spans signal = "spans"
	logs  signal = "records"
)

// counts are how much there was to send and how much a collector has taken.
type counts struct {
	failed func(string) // told of the first failure while there is one to tell; nil is nobody

	mu         sync.Mutex
	made, sent map[signal]int64
	err        error // the first
	told       bool
}

func (c *counts) add(m *map[signal]int64, s signal, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *m == nil {
		*m = map[signal]int64{}
	}
	(*m)[s] += int64(n)
}

// maxCause bounds what is said of an error, in bytes: a collector may have
// written some of it.
const maxCause = 200

func (c *counts) because() string {
	if c.err == nil {
		return ""
	}
	return ": " + plaintext.Visible(plaintext.Clean(c.err.Error(), maxCause))
}

// exported notes what became of n items, and tells of the first failure.
func (c *counts) exported(s signal, n int, err error) error {
	if err == nil {
		c.add(&c.sent, s, n)
		return nil
	}
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	tell := c.failed != nil && !c.told
	c.told = c.told || tell
	text := "OpenTelemetry is not told of everything" + c.because()
	c.mu.Unlock()
	if tell {
		c.failed(text)
	}
	return err
}

// observe offers the counts as numbers: made − sent is what waits or was lost.
func (c *counts) observe(m metric.Meter) error {
	for name, of := range map[string]*map[signal]int64{"isolate_telemetry_made_total": &c.made, "isolate_telemetry_sent_total": &c.sent} {
		_, err := m.Int64ObservableCounter(name, metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, s := range []signal{spans, logs} {
				o.Observe((*of)[s], metric.WithAttributes(attribute.String("what", string(s))))
			}
			return nil
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// madeSpans counts spans that ended and are to be sent.
type madeSpans struct{ *counts }

var _ sdktrace.SpanProcessor = madeSpans{}

func (madeSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (m madeSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		m.add(&m.made, spans, 1)
	}
}

func (madeSpans) Shutdown(context.Context) error   { return nil }
func (madeSpans) ForceFlush(context.Context) error { return nil }

// madeLogs counts log records.
type madeLogs struct{ *counts }

var _ sdklog.Processor = madeLogs{}

func (madeLogs) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

func (m madeLogs) OnEmit(context.Context, *sdklog.Record) error {
	m.add(&m.made, logs, 1)
	return nil
}

func (madeLogs) Shutdown(context.Context) error   { return nil }
func (madeLogs) ForceFlush(context.Context) error { return nil }

// sentSpans, sentLogs and sentMetrics are exporters whose success is counted.
type sentSpans struct {
	sdktrace.SpanExporter
	*counts
}

func (e sentSpans) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	return e.exported(spans, len(list), e.SpanExporter.ExportSpans(ctx, list))
}

type sentLogs struct {
	sdklog.Exporter
	*counts
}

func (e sentLogs) Export(ctx context.Context, list []sdklog.Record) error {
	return e.exported(logs, len(list), e.Exporter.Export(ctx, list))
}

type sentMetrics struct {
	sdkmetric.Exporter
	*counts
}

func (e sentMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	return e.exported("", 0, e.Exporter.Export(ctx, m))
}
