package server

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/internal/strictjson"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// level is how much a route lets its caller do, least first. Who may do what
// is decided by where a request comes from: the Unix socket gives levelRun to
// the server's user and to root, the metrics address gives levelMetrics to
// everybody.
type level int

const (
	levelMetrics level = iota // numbers without names
	levelObserve              // what runs, with its arguments and output
	levelRun                  // run, end and change
)

// String is the level's name in openapi.json.
func (l level) String() string {
	return [...]string{"metrics", "observe", "run"}[l]
}

// route is one row of the table.
type route struct {
	method, path string
	level        level
	// body is the most bytes of a request's body; 0 means it has none, and
	// streamed that its handler bounds it.
	body int64
	do   func(*Server, http.ResponseWriter, *http.Request) error
}

const (
	streamed = -1
	maxBody  = 16 << 20 // a run's standard input in it, in base64
	noBody   = 0
)

// routes is the whole API. openapi.json describes it; a test compares them.
var routes = []route{
	{"GET", "/metrics", levelMetrics, noBody, (*Server).getMetrics},
	{"GET", "/v1/version", levelMetrics, noBody, (*Server).getVersion},
	{"GET", "/v1/openapi.json", levelMetrics, noBody, (*Server).getOpenAPI},
	{"GET", "/v1/stats", levelObserve, noBody, (*Server).getStats},
	{"POST", "/v1/plan", levelObserve, maxBody, (*Server).postPlan},

	{"GET", "/v1/runs", levelObserve, noBody, (*Server).getRuns},
	{"POST", "/v1/runs", levelRun, maxBody, (*Server).postRun},
	{"GET", "/v1/runs/{id}", levelObserve, noBody, (*Server).getRun},
	{"DELETE", "/v1/runs/{id}", levelRun, noBody, (*Server).deleteRun},
	{"GET", "/v1/runs/{id}/logs", levelObserve, noBody, (*Server).getLogs},
	{"PUT", "/v1/runs/{id}/stdin", levelRun, streamed, (*Server).putStdin},
	{"POST", "/v1/runs/{id}/kill", levelRun, noBody, (*Server).killRun},

	{"GET", "/v1/sandboxes", levelObserve, noBody, (*Server).getSandboxes},
	{"POST", "/v1/sandboxes", levelRun, maxBody, (*Server).postSandbox},
	{"GET", "/v1/sandboxes/{id}", levelObserve, noBody, (*Server).getSandbox},
	{"DELETE", "/v1/sandboxes/{id}", levelRun, noBody, (*Server).deleteSandbox},
	{"POST", "/v1/sandboxes/{id}/lease", levelRun, noBody, (*Server).renewLease},
	{"POST", "/v1/sandboxes/{id}/net", levelRun, maxBody, (*Server).grantNet},
	{"POST", "/v1/sandboxes/{id}/kill", levelRun, noBody, (*Server).killSandbox},
	{"POST", "/v1/sandboxes/{id}/runs", levelRun, maxBody, (*Server).postSandboxRun},
	{"POST", "/v1/sandboxes/{id}/in", levelRun, maxBody, (*Server).copyIn},
	{"POST", "/v1/sandboxes/{id}/out", levelRun, maxBody, (*Server).copyOut},
	{"GET", "/v1/sandboxes/{id}/list/{path...}", levelObserve, noBody, (*Server).listFiles},
	{"GET", "/v1/sandboxes/{id}/files/{path...}", levelObserve, noBody, (*Server).getFile},
	{"PUT", "/v1/sandboxes/{id}/files/{path...}", levelRun, streamed, (*Server).putFile},
}

// handler serves the routes up to a level. What is none of them is answered as
// every refusal is.
func (s *Server) handler(most level) http.Handler {
	mux := s.mux(most)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h, _ := mux.Handler(req)
		if _, ours := h.(action); !ours {
			noRoute(w, req, h)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// action is what a route does, told from what net/http answers of its own.
type action func(http.ResponseWriter, *http.Request)

func (a action) ServeHTTP(w http.ResponseWriter, req *http.Request) { a(w, req) }

// noRoute answers a request that no route takes. Which methods the path has,
// and so whether it is there, and how it is written if it is not clean, is known
// to what net/http would answer with; its text is left out. Its redirect is no
// answer: a caller that does not follow it takes it for a success.
func noRoute(w http.ResponseWriter, req *http.Request, none http.Handler) {
	none.ServeHTTP(wordless{w}, req)
	if clean := w.Header().Get("Location"); clean != "" {
		w.Header().Del("Location")
		fail(w, failed(http.StatusNotFound, fmt.Sprintf("cannot find %q: paths are written without \"//\", \".\" and \"..\", and that of a directory ends with a slash", req.URL.Path), "write "+clean))
		return
	}
	if allow := w.Header().Get("Allow"); allow != "" {
		fail(w, failed(http.StatusMethodNotAllowed, fmt.Sprintf("cannot %s %q: it takes %s", req.Method, req.URL.Path, allow), describedWhere))
		return
	}
	fail(w, failed(http.StatusNotFound, fmt.Sprintf("cannot find %q: no route has that path", req.URL.Path), describedWhere+"; an address for metrics has only those of level metrics"))
}

const describedWhere = "GET /v1/openapi.json describes the routes"

// wordless keeps the headers of an answer only.
type wordless struct{ http.ResponseWriter }

func (wordless) WriteHeader(int)             {}
func (wordless) Write(p []byte) (int, error) { return len(p), nil }

// mux is the routes up to a level.
func (s *Server) mux(most level) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.level > most {
			continue
		}
		mux.Handle(r.method+" "+r.path, action(func(w http.ResponseWriter, req *http.Request) {
			if r.body >= 0 {
				req.Body = http.MaxBytesReader(w, req.Body, r.body)
			}
			if err := r.do(s, w, req.WithContext(traced(req.Context(), req))); err != nil {
				fail(w, err)
			}
		}))
	}
	return mux
}

// traced is ctx at the place in a trace that a request has named in its headers.
func traced(ctx context.Context, r *http.Request) context.Context {
	return isolate.WithTraceContext(ctx, r.Header.Get("traceparent"), r.Header.Get("tracestate"))
}

func (s *Server) newHTTP() *http.Server {
	return &http.Server{
		Handler: s.handler(levelRun), ReadHeaderTimeout: greetTime, IdleTimeout: idleTime,
		MaxHeaderBytes: 64 << 10, ConnContext: withPeer, ConnState: s.quiet.follow,
	}
}

// failure is an answer that is an error, with what a person can do.
type failure struct {
	status   int
	problems []client.Problem
}

func (f *failure) Error() string { return f.problems[0].What }

// failed makes a failure of one problem.
func failed(status int, what, remedy string) *failure {
	return &failure{status, []client.Problem{{What: what, Remedy: remedy}}}
}

// problemsOf takes an error apart as the command does.
func problemsOf(err error) []client.Problem {
	var own *failure
	var refusal *plan.Refusal
	var files *workspace.Refusal
	var wrong *policy.DecodeError
	var list []client.Problem
	switch {
	case errors.As(err, &own):
		return own.problems
	case errors.As(err, &refusal) && len(refusal.Problems) > 0:
		return told(refusal.Problems)
	case errors.As(err, &files) && len(files.Problems) > 0:
		return told(files.Problems)
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			what := p.What
			if p.Line > 0 {
				what = fmt.Sprintf("policy, line %d, column %d: %s", p.Line, p.Column, p.What)
			}
			list = append(list, client.Problem{What: what, Remedy: p.Hint})
		}
	default:
		list = []client.Problem{{What: err.Error()}}
	}
	return list
}

// told are problems in a client's words.
func told[P plan.Problem | workspace.Problem](problems []P) (list []client.Problem) {
	for _, p := range problems {
		list = append(list, client.Problem(p))
	}
	return list
}

// statusOf is the status that stands for an error.
func statusOf(err error) int {
	var own *failure
	var refusal *plan.Refusal
	var files *workspace.Refusal
	var wrong *policy.DecodeError
	var over *isolate.OverCapacityError
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &wrong):
		return http.StatusBadRequest
	case errors.As(err, &refusal), errors.As(err, &files):
		return http.StatusUnprocessableEntity
	case errors.As(err, &over):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func fail(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(err))
	_ = json.NewEncoder(w).Encode(map[string]any{"problems": problemsOf(err)})
}

func answer(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who does not read any more is not told
	return nil
}

// decode reads a body strictly.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = strictjson.Decode(body, v)
	}
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return failed(http.StatusRequestEntityTooLarge, fmt.Sprintf("cannot read the request: it has more than %d bytes", big.Limit), "send large input to the run's stdin, and large files to a kept sandbox")
	}
	if err != nil {
		return failed(http.StatusBadRequest, "cannot read the request as JSON: "+wrongJSON(err), describedWhere)
	}
	return nil
}

// switchOf is a parameter of the query that is true or false; false if it is
// not given.
func switchOf(r *http.Request, name string) (bool, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	given := q[name]
	switch {
	case err != nil:
		return false, failed(http.StatusBadRequest, "cannot read the query: its parts are not NAME=VALUE, joined by &", describedWhere)
	case len(given) == 0:
		return false, nil
	case len(given) == 1 && (given[0] == "true" || given[0] == "false"):
		return given[0] == "true", nil
	}
	return false, failed(http.StatusBadRequest, fmt.Sprintf("cannot use %s=%s: it is not true or false, once", name, strings.Join(given, ",")), fmt.Sprintf("write ?%s=true, or leave it out", name))
}

// wrongJSON says what is wrong with a body in the words of JSON, not of Go.
func wrongJSON(err error) string {
	var t *json.UnmarshalTypeError
	var base base64.CorruptInputError
	if errors.As(err, &base) {
		return fmt.Sprintf("\"input\": it is no base64, from byte %d on", int64(base))
	}
	if !errors.As(err, &t) {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	want, named := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
	}[t.Type.Kind()]
	if !named {
		want = "a number"
	}
	if t.Type == reflect.TypeFor[[]byte]() {
		want = "a string in base64"
	}
	field := ""
	if t.Field != "" {
		field = strconv.Quote(t.Field) + ": "
	}
	return fmt.Sprintf("%sit is %s, not %s", field, jsonKinds(t.Value), want)
}

// jsonKinds puts what encoding/json calls a value into a sentence.
func jsonKinds(value string) string {
	kind, _, _ := strings.Cut(value, " ") // "number 1.5"
	switch kind {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + kind
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
	return nil
}

// apiVersion is raised when something of the API changes its meaning or goes.
const apiVersion = 1

func (s *Server) getVersion(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, client.Version{Version: s.options.Version, API: apiVersion})
}

func (s *Server) getStats(w http.ResponseWriter, r *http.Request) error {
	return answer(w, http.StatusOK, s.stats())
}

// stats is what this server has and has done.
func (s *Server) stats() client.Stats {
	st := client.Stats{
		Running: s.runs.count(), Kept: s.kept.count(), Connections: len(s.room),
		Draining: s.isDraining(), Began: s.began,
	}
	if s.options.Runtime != nil {
		p := s.options.Runtime.Stats()
		st.Pool = client.PoolStats{
			MaxSandboxes: p.MaxSandboxes, MaxWaiting: p.MaxWaiting, MaxCells: p.MaxCells,
			Cells: p.Cells, Sandboxes: p.Sandboxes, Waiting: p.Waiting, Spares: p.Spares, Preparing: p.Preparing, IdleSeats: p.IdleSeats,
			Runs: map[string]uint64{}, Ahead: p.Ahead, Made: p.Made, Refused: p.Refused, Waited: p.Waited,
			Blocked: p.Blocked, TearDownErrors: p.TearDownErrors,
		}
		for reason, n := range p.Runs {
			st.Pool.Runs[string(reason)] = n
		}
	}
	return st
}

func (s *Server) postPlan(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Policy string `json:"policy"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	p, err := policy.Decode("policy", []byte(q.Policy))
	if err != nil {
		return err
	}
	pl, err := s.options.Runtime.Plan(r.Context(), p)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, pl)
}
