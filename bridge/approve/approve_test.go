package approve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var question = bridge.Question{Tool: "write_file", Source: "mcp files", Description: "Writes.\nMore.", ID: "a1", Seq: 7, Args: json.RawMessage(`{"path":"x\u202e.txt"}`)}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]bridge.Decision{
		`{"decision":"allow"}`: {Verdict: bridge.Allow, By: "x"},
		`{"decision":"allow","for":5,"by":"ann","reason":"ok","args":null}`: {Verdict: bridge.Allow, For: 5, By: "x: ann", Reason: "ok"},
		`{"decision":"allow","args":{"a":1}}`:                               {Verdict: bridge.Allow, By: "x", Args: json.RawMessage(`{"a":1}`)},
		`{"decision":"deny","for":3,"args":{},"reason":"a\u001bb"}`:         {By: "x", Reason: "a\uFFFDb"},
	} {
		got, err := decode("x", []byte(text))
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("decode(%s) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "null", "{}", "[]", `"allow"`, `{"decision":"yes"}`, `{"decision":"allow","ttl":1}`, `{"decision":"allow"} {"decision":"allow"}`,
		`{"decision":"deny","decision":"allow"}`, `{"decision":"deny","\u0064ecision":"allow"}`, `{"Decision":"allow"}`, `{"decision":"deny","DECISION":"allow"}`,
		`{"deciſion":"allow"}`, `{"decision":"ALLOW"}`, `{"decision":"allow","args":{"a":1,"a":2}}`, `{"decision":"allow","args":{"a":{"b":1,"b":2}}}`,
		`{"decision":"allow","for":-1}`, `{"decision":"allow","for":10001}`, `{"decision":true}`, "{\"decision\":\"allow\",\"by\":\"\xff\"}",
		`{"decision":"allow","reason":"` + strings.Repeat("x", MaxReply) + `"}`,
	} {
		if got, err := decode("x", []byte(text)); err == nil || got.Verdict != bridge.Deny {
			t.Errorf("decode(%.60s) = %+v, %v", text, got, err)
		}
	}
}

func TestFunc(t *testing.T) {
	f := Func(func(_ context.Context, q bridge.Question) (bridge.Decision, error) {
		return bridge.Decision{By: q.Tool}, nil
	})
	if d, err := f.Approve(t.Context(), question); err != nil || d.By != "write_file" {
		t.Errorf("got %+v, %v", d, err)
	}
}

func script(t *testing.T, text string) bridge.Approver {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ask"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	a, err := NewCommand(Command{Path: "./ask", Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCommand(t *testing.T) {
	d, err := script(t, `q=$(cat); case $q in *'"tool":"write_file"'*'"seq":7'*) echo '{"decision":"allow","for":2}';; *) exit 1;; esac`).Approve(within(t, 30*time.Second), question)
	if err != nil || d.Verdict != bridge.Allow || d.For != 2 || d.By != "command" {
		t.Errorf("got %+v, %v", d, err)
	}
	for text, want := range map[string]string{
		`echo '{"decision":"allow"}'; exit 1`:  "exit status 1",
		`exit 0`:                               "cannot read the decision",
		`yes`:                                  "more than",
		`echo '{"decision":"allow"}'; kill $$`: "signal",
	} {
		if d, err := script(t, text).Approve(within(t, 30*time.Second), question); err == nil || d.Verdict != bridge.Deny || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v", text, d, err)
		}
	}
	begun := time.Now()
	d, err = script(t, `trap '' TERM; sleep 1000 & wait; sleep 1000`).Approve(within(t, 300*time.Millisecond), question)
	if !errors.Is(err, context.DeadlineExceeded) || d.Verdict != bridge.Deny || time.Since(begun) > 20*time.Second {
		t.Errorf("got %+v, %v after %v", d, err, time.Since(begun))
	}
	if _, err := NewCommand(Command{Path: "./absent", Dir: t.TempDir()}); err == nil {
		t.Error("an absent command was taken")
	}
}

var secret = []byte("0123456789abcdef")

// service answers by f after it has verified the question.
func service(t *testing.T, f func(w http.ResponseWriter, q map[string]any)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := Verify(secret, r.Header, body, time.Now()); err != nil {
			t.Errorf("Verify: %v", err)
		}
		var q map[string]any
		if err := json.Unmarshal(body, &q); err != nil {
			t.Errorf("the question: %v", err)
		}
		f(w, q)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, url string, wait time.Duration) (bridge.Decision, error) {
	t.Helper()
	a, err := NewWebhook(Webhook{URL: url, Secret: secret, Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return a.Approve(within(t, wait), question)
}

func TestWebhook(t *testing.T) {
	var asked atomic.Int32
	var nonce atomic.Value
	url := service(t, func(w http.ResponseWriter, q map[string]any) {
		if n := asked.Add(1); n > 1 && nonce.Load() != q["nonce"] {
			t.Errorf("nonce %v, then %v", nonce.Load(), q["nonce"])
		}
		nonce.Store(q["nonce"])
		if asked.Load() < 3 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprint(w, `{"decision":"allow","args":{"path":"y"},"by":"ann"}`)
	})
	d, err := ask(t, url, 30*time.Second)
	if err != nil || d.Verdict != bridge.Allow || string(d.Args) != `{"path":"y"}` || d.By != "webhook: ann" || asked.Load() != 3 {
		t.Errorf("got %+v, %v after %d askings", d, err, asked.Load())
	}
}

func TestWebhookFailures(t *testing.T) {
	other := service(t, func(http.ResponseWriter, map[string]any) { t.Error("a redirect was followed") })
	for name, f := range map[string]func(w http.ResponseWriter, q map[string]any){
		"500":      func(w http.ResponseWriter, _ map[string]any) { w.WriteHeader(500) },
		"redirect": func(w http.ResponseWriter, _ map[string]any) { w.Header().Set("Location", other); w.WriteHeader(307) },
		"empty":    func(http.ResponseWriter, map[string]any) {},
		"flood": func(w http.ResponseWriter, _ map[string]any) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"two": func(w http.ResponseWriter, _ map[string]any) {
			fmt.Fprint(w, `{"decision":"allow"}{"decision":"allow"}`)
		},
		"hangs":     func(w http.ResponseWriter, _ map[string]any) { time.Sleep(time.Second) },
		"never yet": func(w http.ResponseWriter, _ map[string]any) { w.WriteHeader(202) },
	} {
		if d, err := ask(t, service(t, f), 500*time.Millisecond); err == nil || d.Verdict != bridge.Deny {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
	}
	d, err := ask(t, "http://127.0.0.1:1/very-secret-path", time.Second)
	if err == nil || d.Verdict != bridge.Deny || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("got %+v, %v", d, err)
	}
}

// The receiver in docs/tools.md agrees with Verify.
func TestDocsReceiver(t *testing.T) {
	testenv.Require(t, testenv.Python3)
	text, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(text), "```python\n")
	code, _, end := strings.Cut(code, "```")
	if !ok || !end {
		t.Fatal("docs/tools.md has no receiver")
	}
	body := []byte(`{"tool":"é"}`)
	for want, age := range map[string]time.Duration{"True": 0, "False": time.Hour} {
		stamp := fmt.Sprint(time.Now().Add(-age).Unix())
		head := fmt.Sprintf(`{"X-Isolate-Timestamp": %q, "X-Isolate-Signature": "v1=%x"}`, stamp, sign(secret, stamp, body))
		out, err := exec.Command("python3", "-c", code+"\nprint(trusted(b'"+string(secret)+"', "+head+", '"+string(body)+"'.encode()))").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("aged %v: %s, %v, want %s", age, out, err, want)
		}
	}
}

func TestWebhookRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://example.com/":        "write https",
		"ftp://127.0.0.1/":           "not https",
		"https://":                   "not https",
		"https://u:p@127.0.0.1/":     "user or password",
		"http://127.0.0.1.evil.com/": "write https",
		"http://[::1%25lo]/\x00":     "cannot read",
	} {
		if _, err := NewWebhook(Webhook{URL: url, Secret: secret}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", url, err)
		}
	}
	if _, err := NewWebhook(Webhook{URL: "http://[::1]/", Secret: secret[1:]}); err == nil || !strings.Contains(err.Error(), "fewer than 16") {
		t.Errorf("error %v", err)
	}
}

// Verify takes a question once signed, and not an old, changed or unsigned one.
func TestVerify(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	body := []byte(`{"tool":"x"}`)
	head := func(stamp, signature string) http.Header {
		return http.Header{TimestampHeader: {stamp}, SignatureHeader: {signature}}
	}
	// Made with: printf '%s' '1800000000.{"tool":"x"}' | openssl dgst -sha256 -hmac 0123456789abcdef
	const good = "v1=02c053fd2a58b6b96878fd2e918e55eac0ebd7d07c0030ec49860d642c361658"
	signature := fmt.Sprintf("v1=%x", sign(secret, "1800000000", body))
	if signature != good {
		t.Errorf("signature %s, openssl says %s", signature, good)
	}
	if err := Verify(secret, head("1800000000", signature), body, now); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"old":       Verify(secret, head("1800000000", signature), body, now.Add(Tolerance+time.Second)),
		"early":     Verify(secret, head("1800000000", signature), body, now.Add(-Tolerance-time.Second)),
		"time":      Verify(secret, head("1800000001", signature), body, now),
		"body":      Verify(secret, head("1800000000", signature), append(body, ' '), now),
		"secret":    Verify([]byte("0123456789abcdeF"), head("1800000000", signature), body, now),
		"unsigned":  Verify(secret, head("1800000000", ""), body, now),
		"no header": Verify(secret, nil, body, now),
	} {
		if err == nil {
			t.Errorf("%s: trusted", name)
		}
	}
}
