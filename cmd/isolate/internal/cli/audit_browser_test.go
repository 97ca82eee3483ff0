package cli

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/testenv"
)

// browser is a real one, without a window. All it asks the network for ends at
// a listener of the test, which knows what a page asked for.
type browser struct {
	proxy *httptest.Server
	mu    sync.Mutex
	asked []string
}

// leak is the name that no page may ask for.
const leak = "leak.invalid"

func newBrowser(t *testing.T) *browser {
	testenv.Require(t, testenv.Tool("chromium"))
	b := &browser{}
	b.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if strings.Contains(r.Host, leak) {
			b.asked = append(b.asked, r.Method+" "+r.RequestURI)
		}
		http.Error(w, "nothing here", http.StatusForbidden)
	}))
	t.Cleanup(b.proxy.Close)
	return b
}

// dom opens a page and gives what the browser made of it.
func (b *browser) dom(t *testing.T, page string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "page.html", page)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, port, _ := net.SplitHostPort(b.proxy.Listener.Addr().String())
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-dev-shm-usage", "--user-data-dir=" + dir + "/profile", "--virtual-time-budget=3000",
		"--proxy-server=" + b.proxy.URL, "--proxy-bypass-list=<-loopback>", "--host-resolver-rules=MAP * 127.0.0.1:" + port,
		"--dump-dom",
	}, more...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, "file://"+dir+"/page.html")...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("the browser ends with %v and makes of the page:\n%s", err, out)
	}
	return string(out)
}

func (b *browser) wants() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.asked...)
}

// inPage are names that do something where they are not shown as text.
var inPage = []string{
	`</td><img src="http://` + leak + `/img">`,
	`<script>document.title = "taken"; fetch("http://` + leak + `/script")</script>`,
	`"><svg onload="document.title = 'taken'">`,
	`</style><style>body { background: url(http://` + leak + `/css) }</style>`,
	`<iframe src="http://` + leak + `/frame"></iframe>`,
	`<base href="http://` + leak + `/"><meta http-equiv="refresh" content="0; url=http://` + leak + `/meta">`,
}

// TestReportInABrowser: what the page shows is there without script and without
// network, and what a hostile program named its things stays text.
func TestReportInABrowser(t *testing.T) {
	b := newBrowser(t)
	// The browser would ask and run, and the test would see it.
	bare := b.dom(t, "<title>free</title><body>"+strings.Join(inPage[:2], ""))
	if !strings.Contains(bare, "<title>taken</title>") || len(b.wants()) < 2 {
		t.Fatalf("a page without rules asks for %q and is\n%s", b.wants(), bare)
	}
	b.asked = nil

	dir, run := reported(t)
	page := auditCall(t, "report", dir).stdout
	picture := filepath.Join(t.TempDir(), "report.png")
	if keep := os.Getenv("ISOLATE_REPORT_PICTURE"); keep != "" {
		picture = keep
	}
	dom := b.dom(t, page, "--window-size=1280,1800", "--screenshot="+picture)
	if asked := b.wants(); len(asked) > 0 {
		t.Errorf("the page asks for %q", asked)
	}
	for _, want := range []string{
		"<title>isolate: what was recorded</title>", `<section id="` + run + `">`, "In order.", "1 run, host log", "memory 512 MiB, 128 processes, 1m0s", "No anchor was given",
		"Timeline: 18 records", "call.accepted", "Blocked attempts: 8", "connect → 192.0.2.1 port 443", "/usr/bin/curl",
		"Tool calls: 2", "weather", "refused: unknown_tool", "Limits that were met", "<td>memory</td>",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the browser shows no %q", want)
		}
	}
	for _, bad := range []string{"<script", "<img", "<svg", "<iframe", "<base", "<meta http-equiv=\"refresh\""} {
		if strings.Contains(dom, bad) {
			t.Errorf("the browser has made %q", bad)
		}
	}
	if st, err := os.Stat(picture); err != nil || st.Size() < 10_000 {
		t.Errorf("there is no picture of the page: %v", err)
	}
	if t.Failed() {
		t.Log(dom)
	}
}

// reported makes a log with everything that a report shows.
func reported(t *testing.T) (dir, run string) {
	t.Helper()
	dir, l := newLog(t)
	defer l.Close()
	start := audit.RunStart{
		Plan: "sha256:3f7a", Profile: "default", Net: "none", Identity: "single-id", LimitsBy: "cgroup1", Memory: 512 << 20, PIDs: 128, Wall: 60_000,
		Weakenings: []string{"weak-limits"},
	}
	r, err := l.Run(start, audit.ProgramStart{Program: "python3", File: "invoices.py"})
	if err != nil {
		t.Fatal(err)
	}
	events := []audit.Event{
		audit.SocketBlocked{Call: "connect", Address: "192.0.2.1", Port: 443, Exe: "/usr/bin/curl", Errno: "ENETUNREACH"},
		audit.CallAccepted{Call: 1, Tool: "weather", Args: r.Payload([]byte(`{"city":"Ulm"}`))},
		audit.CallFinished{Call: 1, Tool: "weather", Decision: "done", Wall: 1500, Response: 20},
		audit.CallRefused{Tool: inPage[0], Code: "unknown_tool"},
		audit.LimitHit{Limit: "memory", Count: 1},
	}
	for _, name := range inPage {
		events = append(events, audit.SocketBlocked{Call: "connect", Address: name, Exe: name, Errno: "ENETUNREACH"})
	}
	events = append(events, audit.SyscallDenied{Call: "mount", Exe: "/bin/mount", Errno: "ENOSYS"},
		audit.BlockedCounts{Total: 8, ByCall: map[string]int64{"connect": 7, "mount": 1}},
		audit.BridgeTotals{Accepted: 2, Done: 1, Refused: 1})
	if err := r.Append(append(events, audit.ProgramEnd{Reason: "oom", ExitCode: 137, Signal: 9, Stdout: 12})...); err != nil {
		t.Fatal(err)
	}
	s, err := r.Close(audit.RunEnd{Reason: "oom", Blocked: 8})
	if err != nil {
		t.Fatal(err)
	}
	return dir, s.Run
}
