package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/metrics"
)

// callTimes makes the histogram of tool calls, which counts them as they end:
// the others are read off the Runtime.
func callTimes(m metric.Meter) (func(call), error) {
	for _, family := range metrics.Of(isolate.Stats{}, isolate.SecurityStats{}) {
		if family.Kind != metrics.Histogram {
			continue
		}
		var bounds []float64
		for _, b := range isolate.HistogramBounds {
			bounds = append(bounds, b.Seconds())
		}
		h, err := m.Float64Histogram(family.Name, metric.WithDescription(family.Help), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
		return func(c call) {
			h.Record(context.Background(), c.took.Seconds(), metric.WithAttributes(attribute.String(family.Label, c.via)))
		}, err
	}
	return func(call) {}, nil
}

// Watch offers the numbers of a Runtime. A provider whose instruments cannot be
// made is told nothing: its own error handler has said why.
func (t *Telemetry) Watch(rt *isolate.Runtime) (done func()) {
	if t.meter == nil {
		return func() {}
	}
	made := map[string]metric.Float64Observable{}
	var all []metric.Observable
	for _, m := range metrics.Of(isolate.Stats{}, isolate.SecurityStats{}) {
		var i metric.Float64Observable
		var err error
		switch m.Kind {
		case metrics.Counter:
			i, err = t.meter.Float64ObservableCounter(m.Name, metric.WithDescription(m.Help))
		case metrics.Gauge:
			i, err = t.meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help))
		default:
			continue
		}
		if err == nil {
			made[m.Name], all = i, append(all, i)
		}
	}
	r, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, m := range metrics.Of(rt.Stats(), rt.Security()) {
			i := made[m.Name]
			if i == nil {
				continue
			}
			for value, n := range m.Samples {
				var attributes []attribute.KeyValue
				if m.Label != "" {
					attributes = append(attributes, attribute.String(m.Label, value))
				}
				o.ObserveFloat64(i, n, metric.WithAttributes(attributes...))
			}
		}
		return nil
	}, all...)
	if err != nil {
		return func() {}
	}
	return func() { _ = r.Unregister() }
}
