package netd

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
)

// scrub takes the values out of an answer that echoes them: out of its headers,
// of a body that is text as it passes, and of its trailers. What stands in
// their place is as long as they are, so that no length changes.
func (s secrets) scrub(resp *http.Response) {
	if len(s) == 0 {
		return
	}
	needles := s.needles()
	replacer := strings.NewReplacer(replacements(needles)...)
	clean := func(h http.Header) {
		for _, values := range h {
			for i, v := range values {
				values[i] = replacer.Replace(v)
			}
		}
	}
	clean(resp.Header)
	if !textual(resp.Header.Get("Content-Type")) {
		needles = nil
	}
	resp.Body = &scrubbed{ReadCloser: resp.Body, needles: needles, replacer: replacer, end: func() { clean(resp.Trailer) }}
}

// needles are the forms in which a value may come back.
func (s secrets) needles() []string {
	var list []string
	for _, x := range s {
		raw := x.value[strings.LastIndexByte(x.value, ' ')+1:]
		list = append(list, x.value, raw, base64.StdEncoding.EncodeToString([]byte(raw)), base64.StdEncoding.EncodeToString([]byte(":"+raw)))
	}
	return list
}

// replacements are the needles with what takes their place.
func replacements(needles []string) []string {
	const gone = "[removed]"
	var pairs []string
	for _, n := range needles {
		pairs = append(pairs, n, (gone + strings.Repeat("*", max(0, len(n)-len(gone))))[:len(n)])
	}
	return pairs
}

// scrubbed is a body without the needles.
type scrubbed struct {
	io.ReadCloser
	needles  []string // nil if it is no text
	replacer *strings.Replacer
	end      func() // called at the end of the body

	clean []byte // to be read
	held  []byte // may be the beginning of a needle
	err   error
}

func (b *scrubbed) Read(p []byte) (int, error) {
	for len(b.clean) == 0 && b.err == nil {
		n, err := b.ReadCloser.Read(p)
		text, hold := string(p[:n]), 0
		if b.needles != nil {
			text = b.replacer.Replace(string(b.held) + text)
		}
		if err == nil {
			hold = begun(text, b.needles)
		}
		b.clean, b.held, b.err = []byte(text[:len(text)-hold]), []byte(text[len(text)-hold:]), err
		if err == io.EOF {
			b.end()
		}
	}
	n := copy(p, b.clean)
	if b.clean = b.clean[n:]; len(b.clean) > 0 {
		return n, nil
	}
	return n, b.err
}

// begun is how many bytes at the end of text may be the beginning of a needle.
func begun(text string, needles []string) int {
	most := 0
	for _, n := range needles {
		for k := min(len(n)-1, len(text)); k > most; k-- {
			if strings.HasSuffix(text, n[:k]) {
				most = k
			}
		}
	}
	return most
}

func textual(t string) bool {
	t = strings.ToLower(t)
	return t == "" || strings.HasPrefix(t, "text/") || strings.Contains(t, "json") || strings.Contains(t, "xml") || strings.Contains(t, "urlencoded")
}
