package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/server"
)

// scrape reads the samples of a metrics address.
func scrape(t *testing.T, address string) map[string]float64 {
	t.Helper()
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			if out[name], err = strconv.ParseFloat(value, 64); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	return out
}

// attempts tries eight destinations, forty times one kind of socket, and calls
// a tool twice.
const attempts = `
for i in 1 2 3; do (echo > /dev/tcp/169.254.169.254/80); done
for i in 1 2; do (echo > /dev/tcp/10.1.2.3/80); (echo > /dev/udp/192.0.2.53/53); done
(echo > /dev/tcp/127.0.0.1/9)
for i in $(seq 40); do (echo > /dev/tcp/192.0.2.1/$i); done
[ -d _rpc/req ] || exit 0
for id in a b; do
	echo '{"tool":"twice","args":{"n":'$i'}}' > _rpc/req/.tmp-$id
	mv _rpc/req/.tmp-$id _rpc/req/req_$id.json
	while [ ! -e _rpc/resp/resp_$id.done ]; do sleep 0.01; done
done
`

// TestSecurityMetrics: the metrics of docs/metrics.md after real runs.
func TestSecurityMetrics(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Tool("bash"))
	dir := t.TempDir()
	key, err := audit.LoadKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(filepath.Join(dir, "log"), audit.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l := newLab(t, isolate.Options{Audit: log}, server.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.server.ServeMetrics(listener)()
	address := listener.Addr().String()

	before := scrape(t, address)
	for _, absent := range []string{"isolate_default_deny_ratio", "isolate_allow_list_coverage_ratio", `isolate_audit_completeness_ratio{what="tool_calls"}`} {
		if v, there := before[absent]; there {
			t.Errorf("%s is %v before anything happened", absent, v)
		}
	}
	if got := l.run(client.RunRequest{Args: []string{"bash", "-c", attempts}}); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	tools := &isolate.Tools{}
	type number struct {
		N int `json:"n"`
	}
	if err := isolate.AddTool(tools, isolate.Tool{Name: "twice"}, func(_ context.Context, n number) (number, error) { return number{2 * n.N}, nil }); err != nil {
		t.Fatal(err)
	}
	res, err := l.runtime.Run(t.Context(), isolate.Policy{Allow: []policy.Weakening{policy.WeakLimits}}, isolate.Cmd{Args: []string{"bash", "-c", attempts}, Tools: tools})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	after := scrape(t, address)
	for name, want := range map[string]float64{
		`isolate_socket_attempts_total{class="metadata"}`:        2 * 3,
		`isolate_socket_attempts_total{class="private"}`:         2 * 2,
		`isolate_socket_attempts_total{class="reserved"}`:        2 * (40 + 2), // more than are listed
		`isolate_socket_attempts_total{class="loopback"}`:        0,
		`isolate_flows_opened_total{by="nothing"}`:               0,
		`isolate_default_deny_ratio`:                             1,
		`isolate_tool_call_seconds_count{via="file"}`:            2,
		`isolate_tool_call_seconds_bucket{via="file",le="+Inf"}`: 2,
		`isolate_audit_counted_total{what="refused_calls"}`:      float64(2 * res.Blocked.Total),
		`isolate_audit_recorded_total{what="refused_calls"}`:     float64(2 * res.Blocked.Total),
		`isolate_audit_recorded_total{what="tool_calls"}`:        2,
		`isolate_audit_completeness_ratio{what="refused_calls"}`: 1,
		`isolate_audit_completeness_ratio{what="tool_calls"}`:    1,
	} {
		if after[name] != want {
			t.Errorf("%s is %v, want %v", name, after[name], want)
		}
	}
	if res.Blocked.Total < 47 {
		t.Errorf("%d calls were refused", res.Blocked.Total)
	}
	if _, there := after["isolate_allow_list_coverage_ratio"]; there {
		t.Error("coverage without a connection that was let out")
	}
	if sum := after[`isolate_tool_call_seconds_sum{via="file"}`]; sum <= 0 || sum > 60 {
		t.Errorf("the calls took %v s", sum)
	}
}
