package netd

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/isolate-run/isolate/egress"
)

// secrets are what a flow's rules put into requests.
type secrets []secret

type secret struct {
	header, value, placeholder string
}

// secretsOf are the secrets for a flow. They are for decrypted requests to the
// name that we dial ourselves; a Host header alone gets nothing.
func (n *Network) secretsOf(f egress.Flow) secrets {
	g := n.judge.Current()
	if g == nil {
		return nil
	}
	var out secrets
	for _, s := range g.SecretsOf(timeNow(), f) {
		if v, ok := n.options.Secrets[s.Variable]; ok {
			out = append(out, secret{header: s.Header, value: s.Prefix + v.Value, placeholder: v.Placeholder})
		}
	}
	return out
}

// inject replaces the headers.
func (s secrets) inject(h http.Header) {
	for _, x := range s {
		h.Del(x.header)
		h.Set(x.header, x.value)
	}
}

// placeholderIn tells whether a request holds a placeholder that does not
// belong to this flow: a program that carries a secret to somebody else.
func (n *Network) placeholderIn(req *http.Request, own secrets) bool {
	for _, s := range n.options.Secrets {
		mine := false
		for _, x := range own {
			mine = mine || x.placeholder == s.Placeholder
		}
		if mine {
			continue
		}
		if strings.Contains(req.URL.String(), s.Placeholder) {
			return true
		}
		for _, values := range req.Header {
			for _, v := range values {
				if strings.Contains(v, s.Placeholder) || strings.Contains(decoded(v), s.Placeholder) {
					return true
				}
			}
		}
	}
	return false
}

// decoded is what a basic authorization says.
func decoded(v string) string {
	_, b64, ok := strings.Cut(v, " ")
	if !ok {
		return ""
	}
	b, _ := base64.StdEncoding.DecodeString(b64)
	return string(b)
}

// count is how many headers of an answer echo a secret.
func (s secrets) count(resp *http.Response) int {
	n := 0
	for _, values := range resp.Header {
		for _, v := range values {
			for _, x := range s {
				if strings.Contains(v, x.value) {
					n++
				}
			}
		}
	}
	return n
}
