// Package otlptest is a collector of OpenTelemetry for tests: it takes OTLP over
// HTTP on loopback and keeps what it was sent.
//
// It reads the wire by the protocol's own definitions and shares no code with
// what sends. Nothing outside tests imports it; it needs no kernel.
package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	logpb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector is a collector that works.
type Collector struct {
	URL string
	t   *testing.T

	mu       sync.Mutex
	spans    []*trace.Span
	logs     []*logs.LogRecord
	metrics  []*metrics.Metric
	resource map[string]string
}

// New starts a collector that ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{t: t, resource: map[string]string{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// ServeHTTP takes one request.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return // who sent it has gone
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s of type %q", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		c.takeSpans(b)
	case "/v1/logs":
		c.takeLogs(b)
	case "/v1/metrics":
		c.takeMetrics(b)
	default:
		c.t.Errorf("a request for %s", r.URL)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) read(b []byte, m proto.Message) {
	if err := proto.Unmarshal(b, m); err != nil {
		c.t.Errorf("cannot read a message: %v", err)
	}
}

func (c *Collector) takeSpans(b []byte) {
	var m tracepb.ExportTraceServiceRequest
	c.read(b, &m)
	for _, r := range m.ResourceSpans {
		c.from(r.Resource.GetAttributes())
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

func (c *Collector) takeLogs(b []byte) {
	var m logpb.ExportLogsServiceRequest
	c.read(b, &m)
	for _, r := range m.ResourceLogs {
		c.from(r.Resource.GetAttributes())
		for _, s := range r.ScopeLogs {
			c.logs = append(c.logs, s.LogRecords...)
		}
	}
}

func (c *Collector) takeMetrics(b []byte) {
	var m metricpb.ExportMetricsServiceRequest
	c.read(b, &m)
	c.metrics = nil // each message has all of them
	for _, r := range m.ResourceMetrics {
		c.from(r.Resource.GetAttributes())
		for _, s := range r.ScopeMetrics {
			c.metrics = append(c.metrics, s.Metrics...)
		}
	}
}

func (c *Collector) from(list []*common.KeyValue) {
	for _, kv := range list {
		c.resource[kv.Key] = kv.Value.GetStringValue()
	}
}

// Spans are the spans so far.
func (c *Collector) Spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Logs are the log records so far.
func (c *Collector) Logs() []*logs.LogRecord {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.logs)
}

// Metrics are those of the last message, by name.
func (c *Collector) Metrics() map[string]*metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[string]*metrics.Metric{}
	for _, one := range c.metrics {
		m[one.Name] = one
	}
	return m
}

// Resource is an attribute of who sends.
func (c *Collector) Resource(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[key]
}

// Attributes are attributes by name: texts as they are, whole numbers as int64.
func Attributes(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.Key] = v.DoubleValue
		}
	}
	return m
}
