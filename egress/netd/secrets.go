package netd

import (
	"bytes"
	"encoding/base64"
	"io"
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

// maxScrub bounds the bodies that are searched for an echo of a secret.
const maxScrub = 1 << 20

// scrub takes the values out of an answer that echoes them.
func (s secrets) scrub(resp *http.Response) {
	if len(s) == 0 {
		return
	}
	replacer := s.replacer()
	for name, values := range resp.Header {
		for i, v := range values {
			resp.Header[name][i] = replacer.Replace(v)
		}
	}
	if !textual(resp.Header.Get("Content-Type")) || resp.ContentLength > maxScrub {
		return
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxScrub))
	rest := resp.Body
	clean := []byte(replacer.Replace(string(b)))
	if !bytes.Equal(clean, b) || err != nil {
		if resp.ContentLength >= 0 {
			resp.ContentLength += int64(len(clean) - len(b))
			resp.Header.Del("Content-Length")
		}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(clean), rest), rest}
}

func (s secrets) replacer() *strings.Replacer {
	const gone = "[removed]"
	var pairs []string
	for _, x := range s {
		raw := x.value[strings.LastIndexByte(x.value, ' ')+1:]
		pairs = append(pairs, x.value, gone, raw, gone, base64.StdEncoding.EncodeToString([]byte(raw)), gone, base64.StdEncoding.EncodeToString([]byte(":"+raw)), gone)
	}
	return strings.NewReplacer(pairs...)
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

func textual(t string) bool {
	t = strings.ToLower(t)
	return t == "" || strings.HasPrefix(t, "text/") || strings.Contains(t, "json") || strings.Contains(t, "xml") || strings.Contains(t, "urlencoded")
}
