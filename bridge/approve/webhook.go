package approve

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

// Headers of a question to a web service.
const (
	// TimestampHeader has the time of the request in seconds since 1970.
	TimestampHeader = "X-Isolate-Timestamp"
	// SignatureHeader has "v1=" and, in lower-case hex, the HMAC-SHA256 with
	// the secret over the timestamp as written, a full stop, and the body.
	SignatureHeader = "X-Isolate-Signature"
)

const (
	signaturePrefix = "v1="
	// MinSecret is the length of the shortest secret, in bytes: 128 bits.
	MinSecret = 16
	// Tolerance is how far a receiver lets the timestamp be from its own
	// clock: what is common for signed webhooks.
	Tolerance = 5 * time.Minute
	// pollTime is how long to wait before a question is asked again to which
	// the answer was "not yet" (202).
	pollTime = 2 * time.Second
)

// Webhook asks a web service: a POST of the Question as JSON, with a "nonce"
// that names this asking, signed as the headers say. The answer is 200 and the
// JSON that Command reads, or 202 for "not yet", after which the same question
// with the same nonce is asked again every 2 seconds. Anything else is an error,
// redirects too.
type Webhook struct {
	// URL is https, or http to this machine itself (a loopback address or
	// localhost): an answer that anybody on the way can write is none.
	URL string
	// Secret signs the questions. It has at least MinSecret bytes.
	Secret []byte
	// TLS is for https. Nil means the defaults.
	TLS *tls.Config
	// Poll is the time between two askings. Zero means 2 seconds.
	Poll time.Duration
}

// NewWebhook checks the settings. It sends nothing.
func NewWebhook(w Webhook) (bridge.Approver, error) {
	u, err := url.Parse(w.URL)
	if err != nil {
		return nil, errors.New("cannot read the webhook's URL") // the cause repeats it, and it may hold a secret
	}
	switch {
	case u.User != nil:
		return nil, errors.New("cannot use the webhook's URL: it has a user or password; the signature says who asks")
	case u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("cannot use the webhook's URL: it is not https://HOST/…")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("cannot use the webhook's URL: http is for this machine only; write https")
	case len(w.Secret) < MinSecret:
		return nil, fmt.Errorf("cannot use the webhook's secret: it has fewer than %d bytes; make one with: openssl rand -hex 32", MinSecret)
	}
	if w.Poll == 0 {
		w.Poll = pollTime
	}
	return Func(w.approve), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost"
}

func (w Webhook) approve(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
	body, err := json.Marshal(struct {
		bridge.Question
		Nonce string `json:"nonce"`
	}{q, rand.Text()})
	if err != nil {
		return bridge.Decision{}, fmt.Errorf("cannot write the question: %w", err)
	}
	// No proxy, no cookies, no connection kept: one question, one service.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: w.TLS, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for {
		data, status, err := w.post(ctx, client, body)
		switch {
		case err != nil:
			return bridge.Decision{}, err
		case status == http.StatusOK:
			return decode("webhook", data)
		case status != http.StatusAccepted:
			return bridge.Decision{}, fmt.Errorf("cannot use the webhook's answer: its status is %d, not 200 or 202", status)
		}
		select {
		case <-ctx.Done():
			return bridge.Decision{}, fmt.Errorf("cannot wait for the webhook: %w", ctx.Err())
		case <-time.After(w.Poll):
		}
	}
}

// post asks once.
func (w Webhook) post(ctx context.Context, client *http.Client, body []byte) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return nil, 0, errors.New("cannot make the webhook's request")
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(TimestampHeader, stamp)
	req.Header.Set(SignatureHeader, signaturePrefix+hex.EncodeToString(sign(w.Secret, stamp, body)))
	resp, err := client.Do(req)
	if err != nil {
		var told *url.Error // says the URL, whose path may be a secret
		if errors.As(err, &told) {
			err = told.Err
		}
		return nil, 0, fmt.Errorf("cannot ask the webhook: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the webhook's answer: %w", err)
	}
	return data, resp.StatusCode, nil
}

func sign(secret []byte, stamp string, body []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(stamp + "."))
	m.Write(body)
	return m.Sum(nil)
}

// Verify is for who receives a question: it checks signature and time. The
// header is the request's, now the receiver's clock. Who wants no question
// answered twice remembers the nonces of the last 2 × Tolerance.
func Verify(secret []byte, header http.Header, body []byte, now time.Time) error {
	stamp := header.Get(TimestampHeader)
	signature, _ := strings.CutPrefix(header.Get(SignatureHeader), signaturePrefix)
	given, err := hex.DecodeString(signature)
	if err != nil || !hmac.Equal(given, sign(secret, stamp, body)) {
		return errors.New("cannot trust the question: the signature is not of this secret, time and body")
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errors.New("cannot trust the question: its time is no number")
	}
	if d := now.Sub(time.Unix(seconds, 0)).Abs(); d > Tolerance {
		return fmt.Errorf("cannot trust the question: its time is %v off", d.Round(time.Second))
	}
	return nil
}
