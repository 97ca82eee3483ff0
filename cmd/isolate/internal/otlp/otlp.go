// Package otlp sends telemetry of the command to a collector, by OTLP over HTTP.
//
// Everything is set by the standard variables of OpenTelemetry, which its SDK
// reads. What is sent waits in bounded queues; a collector that is away, slow or
// broken costs what did not fit into them and, at the end of a command, at most
// FlushTime. What was made and not delivered is counted, and told once.
//
// It is in the program isolate-otel only: the libraries it needs take longer to
// start than a sandbox does. It needs no kernel.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/isolate-run/isolate/cmd/isolate/internal/cli"
	"github.com/isolate-run/isolate/telemetry"
)

// FlushTime bounds the sending of what is left when a command ends: enough for a
// new TLS connection to a collector on another continent.
const FlushTime = 2 * time.Second

// session is the telemetry of one command, or of one server.
type session struct {
	*telemetry.Telemetry
	ends []func(context.Context) error // of the providers
	*counts
}

var (
	_ cli.Exporter  = Open
	_ cli.Telemetry = (*session)(nil)
)

// Open makes the exporters of the signals that are wanted. It fails if the
// variables cannot be understood; whether there is a collector is not looked at.
func Open(ctx context.Context, w cli.TelemetryWish) (cli.Telemetry, error) {
	// the SDK writes to standard error unless it is told otherwise
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	otel.SetLogger(logr.Discard())
	res, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "isolate"), attribute.String("service.version", w.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	s := &session{counts: &counts{failed: w.Failed}}
	var o telemetry.Options
	if err := s.open(ctx, w, res, &o); err != nil {
		return nil, errors.Join(err, s.shutdown())
	}
	if o.Metrics != nil {
		if err := s.observe(o.Metrics.Meter("github.com/isolate-run/isolate/telemetry")); err != nil {
			return nil, errors.Join(err, s.shutdown())
		}
	}
	s.Telemetry, err = telemetry.New(o)
	return s, err
}

// open makes the providers.
func (s *session) open(ctx context.Context, w cli.TelemetryWish, res *resource.Resource, o *telemetry.Options) error {
	if w.Traces {
		e, err := otlptracehttp.New(ctx, otlptracehttp.WithProxy(stay))
		if err != nil {
			return err
		}
		p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSpanProcessor(madeSpans{s.counts}), sdktrace.WithBatcher(sentSpans{e, s.counts}))
		o.Traces, s.ends = p, append(s.ends, p.Shutdown)
	}
	if w.Logs {
		e, err := otlploghttp.New(ctx, otlploghttp.WithProxy(stay))
		if err != nil {
			return err
		}
		p := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(madeLogs{s.counts}), sdklog.WithProcessor(sdklog.NewBatchProcessor(sentLogs{e, s.counts})))
		o.Logs, s.ends = p, append(s.ends, p.Shutdown)
	}
	if w.Metrics {
		e, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithProxy(stay))
		if err != nil {
			return err
		}
		p := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(sentMetrics{e, s.counts})))
		o.Metrics, s.ends = p, append(s.ends, p.Shutdown)
	}
	return nil
}

// stay chooses the proxy of a request as usual, and refuses one that a redirect
// made: it would take what is sent, and headers that may be keys, to whatever
// host an answer names. It is the one place where the exporters let a request
// be seen without giving up their own client, which heeds the variables.
func stay(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("redirects are not followed")
	}
	return http.ProxyFromEnvironment(r)
}

// Close sends what is left, for at most FlushTime, and says in one line what was
// lost; nothing if nothing was, or if that was told before.
func (s *session) Close() string {
	_ = s.shutdown() // what it cost is counted
	return s.lost()
}

// shutdown ends the providers, all at the same time: each may take as long as is
// allowed.
func (s *session) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), FlushTime)
	defer cancel()
	errs := make([]error, len(s.ends))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wait sync.WaitGroup
		for i, end := range s.ends {
			wait.Go(func() { errs[i] = end(ctx) })
		}
		wait.Wait()
	}()
	select {
	case <-done:
		return errors.Join(errs...)
	case <-time.After(FlushTime + flushGrace): // a library that does not listen to its context
		return context.DeadlineExceeded
	}
}

// flushGrace is what the libraries may take beyond their time.
const flushGrace = 250 * time.Millisecond

// lost is what Close says.
func (c *counts) lost() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, s := range []signal{spans, logs} {
		if n := c.made[s] - c.sent[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d %s", n, c.made[s], s))
		}
	}
	if len(parts) == 0 || c.told {
		return ""
	}
	c.told = true
	return "OpenTelemetry was not told of " + strings.Join(parts, " and ") + c.because()
}
