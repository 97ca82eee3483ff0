package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/cmd/isolate/internal/otlp"
	"github.com/isolate-run/isolate/internal/otlptest"
	"github.com/isolate-run/isolate/internal/testenv"
)

// bad are collectors that do not do their work.
func bad(t *testing.T) map[string]string {
	t.Helper()
	handlers := map[string]http.HandlerFunc{
		"500": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "\x1b[31mno\nluck", 500) },
		"503": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
		},
		"hangs": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"slow":  func(w http.ResponseWriter, r *http.Request) { time.Sleep(time.Minute) },
		"garbage": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			io.WriteString(w, "\xff\xff\xff\xff")
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		},
		"drops": func(w http.ResponseWriter, r *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close()
			}
		},
	}
	urls := map[string]string{}
	for name, h := range handlers {
		s := httptest.NewServer(h)
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Listener.Close()
		})
		urls[name] = s.URL
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	urls["refused"] = "http://" + l.Addr().String()
	l.Close()
	if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { // nobody accepts
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	urls["silent"] = "http://" + l.Addr().String()
	urls["no URL"] = "http://[::1"
	return urls
}

// recorded is run with an audit log in the directory of the command.
var recorded = append([]string{"exec", "--audit", "log", "--audit-key", "key"}, run[1:]...)

// local gives the records of the one run in the log of a command, which must
// verify and have an end.
func local(t *testing.T, dir string) (list []audit.Record) {
	t.Helper()
	log := filepath.Join(dir, "log")
	report, err := audit.Verify(log, audit.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 || len(report.Runs) != 1 || report.Runs[0].State != audit.StateEnded {
		t.Fatalf("the log is %+v, %v", report, err)
	}
	if err := audit.Records(log, report.Runs[0].ID, func(r audit.Record) error {
		list = append(list, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestBadCollectors is cases.md B 81: whatever the collector does, the run is
// what it was, its log complete, and it costs FlushTime and one line at most.
func TestBadCollectors(t *testing.T) {
	for name, url := range bad(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, stdout, stderr := command(t, "isolate", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url}, recorded...)
			began := time.Now()
			code := exitCode(t, cmd)
			took := time.Since(began)
			var lines []string
			for line := range strings.Lines(stderr.String()) {
				if strings.Contains(line, "OpenTelemetry") {
					lines = append(lines, line)
				}
			}
			if code != 3 || stdout.String() != "out\n" || len(lines) != 1 || strings.ContainsRune(stderr.String(), 0x1b) {
				t.Errorf("%d, %q, %q", code, stdout, stderr)
			}
			if took > otlp.FlushTime+40*time.Second { // eleven at once on a busy machine
				t.Errorf("it took %s", took)
			}
			if n := len(local(t, cmd.Dir)); n < 4 { // run.start, program.start, program.end, run.end
				t.Errorf("the log has %d records", n)
			}
		})
	}
}

// connects makes more records than a small queue holds, at its end.
const connects = `import socket
for port in range(1, 13):
    socket.socket().connect_ex(("192.0.2.1", port))
print("out")
raise SystemExit(3)`

// TestGapsAreSeen is cases.md B 81: what a collector refuses, or what finds the
// queue full, is told by number and missing by index. What came is the log's.
func TestGapsAreSeen(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	program := append(slices.Clone(recorded[:len(recorded)-3]), "python3", "-c", connects)
	for name, test := range map[string]struct {
		env   string
		front func(c *otlptest.Collector, first bool, w http.ResponseWriter, r *http.Request)
	}{
		"refused": {"OTEL_BLRP_MAX_EXPORT_BATCH_SIZE=1", func(c *otlptest.Collector, first bool, w http.ResponseWriter, r *http.Request) {
			if first {
				http.Error(w, "no", http.StatusBadRequest)
				return
			}
			c.ServeHTTP(w, r)
		}},
		"full": {"OTEL_BLRP_MAX_QUEUE_SIZE=2", func(c *otlptest.Collector, _ bool, w http.ResponseWriter, r *http.Request) {
			time.Sleep(100 * time.Millisecond)
			c.ServeHTTP(w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := otlptest.New(t)
			var logs atomic.Int64
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				test.front(c, logs.Add(1) == 1, w, r)
			}))
			t.Cleanup(front.Close)
			cmd, stdout, stderr := command(t, "isolate", []string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=" + front.URL + "/v1/logs", test.env}, program...)
			if code := exitCode(t, cmd); code != 3 || stdout.String() != "out\n" {
				t.Fatalf("%d, %q, %s", code, stdout, stderr)
			}
			have := local(t, cmd.Dir)
			came := map[int64]bool{}
			for _, r := range c.Logs() {
				i, ok := otlptest.Attributes(r.Attributes)["isolate.record.index"].(int64)
				if !ok || i >= int64(len(have)) || came[i] || r.Body.GetStringValue() != string(have[i].Bytes) {
					t.Fatalf("record %d came as %v", i, r)
				}
				came[i] = true
			}
			lost := len(have) - len(came)
			if lost == 0 || len(came) == 0 || !strings.Contains(stderr.String(), "OpenTelemetry") {
				t.Errorf("%d of %d records came: %s", len(came), len(have), stderr)
			}
			if said := fmt.Sprintf("%d of %d records", lost, len(have)); name == "full" && !strings.Contains(stderr.String(), said) {
				t.Errorf("not said is %q: %s", said, stderr)
			}
		})
	}
}

// TestRedirects: what is sent, and the keys that it is sent with, go to no host
// but the one that the variables name.
func TestRedirects(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		elsewhere := make(chan string, 16)
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			elsewhere <- r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Api-Key")
		}))
		t.Cleanup(other.Close)
		asked := make(chan string, 16)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.Header.Get("X-Api-Key")
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		t.Cleanup(s.Close)
		cmd, stdout, stderr := command(t, "isolate", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-api-key=k3y"}, run...)
		if code := exitCode(t, cmd); code != 3 || stdout.String() != "out\n" || !strings.Contains(stderr.String(), "redirects are not followed") {
			t.Errorf("%d: %d, %q, %q", status, code, stdout, stderr)
		}
		if len(asked) == 0 || <-asked != "k3y" {
			t.Errorf("%d: the collector was not asked", status)
		}
		if len(elsewhere) > 0 {
			t.Errorf("%d: another host was sent %q", status, <-elsewhere)
		}
	}
}
