package netd

import (
	"encoding/base64"
	"net/http"
	"slices"
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

// marksOfOthers are the placeholders that do not belong to a flow with these
// secrets.
func (n *Network) marksOfOthers(own secrets) []string {
	var marks []string
	for _, s := range n.options.Secrets {
		if !slices.ContainsFunc(own, func(x secret) bool { return x.placeholder == s.Placeholder }) {
			marks = append(marks, s.Placeholder)
		}
	}
	return marks
}

// placeholderIn tells whether the head of a request holds a placeholder that
// does not belong to this flow: a program that carries a secret to somebody
// else. watchBody looks at the rest.
func (n *Network) placeholderIn(req *http.Request, own secrets) bool {
	marks := n.marksOfOthers(own)
	return len(marks) > 0 && (containsAny(req.URL.String(), marks) || inHeader(req.Header, marks))
}

func inHeader(h http.Header, marks []string) bool {
	for _, values := range h {
		for _, v := range values {
			if containsAny(v, marks) || containsAny(decoded(v), marks) {
				return true
			}
		}
	}
	return false
}

func containsAny(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
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
