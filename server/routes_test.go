package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/metrics"
)

type openAPIFile struct {
	Paths map[string]map[string]struct {
		Level      string `json:"x-level"`
		Parameters []struct{ Name, In string }
	}
	Components struct {
		Schemas map[string]struct{ Properties map[string]any }
	}
}

func readOpenAPI(t *testing.T) openAPIFile {
	t.Helper()
	var f openAPIFile
	if err := json.Unmarshal(openAPI, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOpenAPIRoutes: the file and the table say the same.
func TestOpenAPIRoutes(t *testing.T) {
	f := readOpenAPI(t)
	described := 0
	for _, ops := range f.Paths {
		described += len(ops)
	}
	if described != len(routes) {
		t.Errorf("%d operations are described, there are %d routes", described, len(routes))
	}
	for _, r := range routes {
		path := strings.ReplaceAll(r.path, "...}", "}")
		op, ok := f.Paths[path][strings.ToLower(r.method)]
		if !ok || op.Level != r.level.String() {
			t.Errorf("%s %s needs level %s; the file says %q", r.method, r.path, r.level, op.Level)
		}
		for _, name := range []string{"id", "path"} {
			has := slices.ContainsFunc(op.Parameters, func(p struct{ Name, In string }) bool { return p.Name == name && p.In == "path" })
			if want := strings.Contains(path, "{"+name+"}"); has != want {
				t.Errorf("%s %s: parameter %s is described: %t", r.method, r.path, name, has)
			}
		}
	}
}

// jsonNames are the names of a struct's fields on the wire.
func jsonNames(typ reflect.Type) []string {
	var names []string
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestOpenAPISchemas: the file and the Go types have the same fields.
func TestOpenAPISchemas(t *testing.T) {
	f := readOpenAPI(t)
	types := map[string]reflect.Type{"Problems": reflect.TypeFor[struct {
		Problems []client.Problem `json:"problems"`
	}]()}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[client.Problem](), reflect.TypeFor[client.Run](), reflect.TypeFor[client.RunRequest](), reflect.TypeFor[client.Input](), reflect.TypeFor[client.CopyIn](), reflect.TypeFor[client.CopyOut](),
		reflect.TypeFor[client.Event](), reflect.TypeFor[client.SandboxRequest](), reflect.TypeFor[client.Sandbox](), reflect.TypeFor[client.NetGrant](), reflect.TypeFor[client.NetGranted](), reflect.TypeFor[client.File](),
		reflect.TypeFor[client.FileList](), reflect.TypeFor[client.Written](), reflect.TypeFor[client.Version](), reflect.TypeFor[client.Stats](), reflect.TypeFor[client.PoolStats](),
	} {
		types[typ.Name()] = typ
	}
	if len(types) != len(f.Components.Schemas) {
		t.Errorf("%d schemas are described, there are %d types", len(f.Components.Schemas), len(types))
	}
	for name, typ := range types {
		var described []string
		for p := range f.Components.Schemas[name].Properties {
			described = append(described, p)
		}
		slices.Sort(described)
		if want := jsonNames(typ); !slices.Equal(described, want) {
			t.Errorf("%s: described are %v, there are %v", name, described, want)
		}
	}
	if got, want := jsonNames(reflect.TypeFor[client.PoolStats]()), jsonNames(reflect.TypeFor[isolate.Stats]()); !slices.Equal(got, want) {
		t.Errorf("client.PoolStats has %v, isolate.Stats has %v", got, want)
	}
}

// request asks the handler of a level.
func request(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func bare(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{Version: "v-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestLevels: a route above the level does not exist.
func TestLevels(t *testing.T) {
	s := bare(t)
	for most := levelMetrics; most <= levelRun; most++ {
		h := s.handler(most)
		for _, r := range routes {
			if r.level <= most {
				continue
			}
			path := strings.NewReplacer("{id}", "x", "{path...}", "p").Replace(r.path)
			if w := request(t, h, r.method, path, "{}"); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
				t.Errorf("level %s: %s %s is answered with %d", most, r.method, path, w.Code)
			}
		}
	}
}

// TestRefusals: what is wrong with a request is said as the command says it.
func TestRefusals(t *testing.T) {
	h := bare(t).handler(levelRun)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/runs/r9", "", 404, `cannot find run \"r9\"`},
		{"POST", "/v1/runs/r9/kill", "", 404, `cannot find run`},
		{"GET", "/v1/sandboxes/s1", "", 404, `cannot find sandbox \"s1\"`},
		{"DELETE", "/v1/sandboxes/s1", "", 404, `cannot find sandbox`},
		{"GET", "/v1/sandboxes/s1/files/a", "", 404, `cannot find sandbox`},
		{"POST", "/v1/runs", "", 400, "as JSON"},
		{"POST", "/v1/runs", `{"args":["true"]} x`, 400, "there is more after it"},
		{"POST", "/v1/runs", `{"argv":["true"]}`, 400, `as JSON: unknown field \"argv\"`},
		{"POST", "/v1/runs", `{"args":"true"}`, 400, `as JSON: \"args\": it is a string, not a list`},
		{"POST", "/v1/runs", `{"args":[1]}`, 400, `it is a number, not a string`},
		{"POST", "/v1/runs", `{"args":["true"],"env":["A=1"]}`, 400, `\"env\": it is a list, not an object`},
		{"POST", "/v1/runs", `{"args":["true"],"input":7}`, 400, `\"input\": it is a number, not a string in base64`},
		{"POST", "/v1/runs", `[]`, 400, `as JSON: it is a list, not an object`},
		{"POST", "/v1/runs", `{"args":["true"],"policy":"memory = 5"}`, 400, `policy, line 1, column 10`},
		{"POST", "/v1/plan", `{"policy":"memroy = \"1G\""}`, 400, `did you mean`},
		{"POST", "/v1/sandboxes", `{"idle":"1y"}`, 400, `cannot use idle \"1y\"`},
		{"POST", "/v1/sandboxes", `{"lifetime":"25h"}`, 400, `cannot use lifetime`},
		{"POST", "/v1/sandboxes/s1/net", `{"allow":["*"],"for":"10m","reason":"x"}`, 400, `cannot allow \"*\"`},
		{"POST", "/v1/sandboxes/s1/net", `{"allow":["pypi.org"],"for":"soon","reason":"x"}`, 400, `cannot use for \"soon\"`},
		{"POST", "/v1/sandboxes/s1/net", `{"allow":["pypi.org"],"for":"10m","reason":"x"}`, 404, `cannot find sandbox`},
		{"POST", "/v1/runs", `{"args":["` + strings.Repeat("x", maxBody) + `"]}`, 413, "more than 16777216 bytes"},
		{"POST", "/v1/runs/r1/kill", "x", 404, "cannot find run"},
		{"PATCH", "/v1/runs", "", 405, `cannot PATCH \"/v1/runs\": it takes GET, HEAD, POST`},
		{"POST", "/v1/runs", `{"args":["cat"],"input":"hello!"}`, 400, `\"input\": it is no base64, from byte 5 on`},
		{"GET", "/", "", 404, `cannot find \"/\"`},
		{"PUT", "/v1/sandboxes/s1/files//etc/x", "x", 404, `write /v1/sandboxes/s1/files/etc/x"`},
		{"GET", "/v1/sandboxes/s1/list", "", 404, `write /v1/sandboxes/s1/list/"`},
		{"GET", "/v1/sandboxes/s1/list/.?x=1", "", 404, `write /v1/sandboxes/s1/list/?x=1"`},
		{"GET", "/v1/nothing\u202e", "", 404, `GET /v1/openapi.json`},
	} {
		w := request(t, h, c.method, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.status, c.want)
		}
		var said struct{ Problems []client.Problem }
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || len(said.Problems) == 0 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %q, %q is no list of problems", c.method, c.path, w.Header(), w.Body)
		}
		if allow := w.Header().Get("Allow"); (allow != "") != (c.status == http.StatusMethodNotAllowed) {
			t.Errorf("%s %s: allowed is %q with status %d", c.method, c.path, allow, c.status)
		}
	}
}

func TestVersionAndStats(t *testing.T) {
	h := bare(t).handler(levelRun)
	var v client.Version
	if err := json.NewDecoder(request(t, h, "GET", "/v1/version", "").Body).Decode(&v); err != nil || v != (client.Version{Version: "v-test", API: 1}) {
		t.Errorf("%+v, %v", v, err)
	}
	if w := request(t, h, "GET", "/v1/runs", ""); strings.TrimSpace(w.Body.String()) != `{"runs":[]}` {
		t.Errorf("no runs: %s", w.Body)
	}
}

// TestMetricsAreDocumented: docs/metrics.md has every metric, and the dashboard
// asks for none that is not there.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range append(bare(t).metrics(), metrics.Of(isolate.Stats{}, isolate.SecurityStats{})...) {
		known[m.Name] = true
		if !strings.Contains(string(text), "`"+m.Name) {
			t.Errorf("docs/metrics.md has no %s", m.Name)
		}
	}
	board, err := os.ReadFile("../contrib/grafana.json")
	if err != nil || !json.Valid(board) {
		t.Fatalf("the dashboard: %v", err)
	}
	for _, name := range regexp.MustCompile(`isolate_[a-z_]+`).FindAllString(string(board), -1) {
		if !known[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("the dashboard asks for %s, which is not there", name)
		}
	}
}

// TestMetricsFormat: every line is what the format allows.
func TestMetricsFormat(t *testing.T) {
	s := bare(t)
	text, _ := io.ReadAll(request(t, s.handler(levelMetrics), "GET", "/metrics", "").Body)
	seen := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "# HELP "), strings.HasPrefix(line, "# TYPE "):
			seen[f[2]] += f[1]
		case len(f) != 2:
			t.Errorf("no sample: %q", line)
		default:
			name, _, _ := strings.Cut(f[0], "{")
			for _, part := range []string{"_bucket", "_sum", "_count"} { // of histograms
				if base, ok := strings.CutSuffix(name, part); ok && seen[base] != "" {
					name = base
				}
			}
			if seen[name] != "HELPTYPE" {
				t.Errorf("%s comes before its HELP and TYPE", name)
			}
		}
	}
	for _, m := range append(s.metrics(), metrics.Of(isolate.Stats{}, isolate.SecurityStats{})...) {
		if counter := m.Kind == metrics.Counter; counter != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s", m.Name, m.Kind)
		}
	}
}
