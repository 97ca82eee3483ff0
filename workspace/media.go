package workspace

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"
)

// magic are the beginnings of the formats that programs hand over as results.
// The list is short on purpose: a consumer that must know looks itself.
var magic = []struct{ begin, media string }{
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
	{"%PDF-", "application/pdf"},
	{"\x1f\x8b", "application/gzip"},
	{"BZh", "application/x-bzip2"},
	{"\xfd7zXZ\x00", "application/x-xz"},
	{"\x28\xb5\x2f\xfd", "application/zstd"},
	{"PAR1", "application/vnd.apache.parquet"},
	{"SQLite format 3\x00", "application/vnd.sqlite3"},
	{"\x7fELF", "application/x-elf"},
	{"\x93NUMPY", "application/x-npy"},
}

// refined are the names' endings that say more than the bytes do, and of
// which kind the bytes must be.
var refined = map[string]struct{ of, media string }{
	".csv":   {"text/plain", "text/csv"},
	".css":   {"text/plain", "text/css"},
	".html":  {"text/plain", "text/html"},
	".htm":   {"text/plain", "text/html"},
	".js":    {"text/plain", "text/javascript"},
	".json":  {"text/plain", "application/json"},
	".ipynb": {"text/plain", "application/x-ipynb+json"},
	".md":    {"text/plain", "text/markdown"},
	".svg":   {"text/plain", "image/svg+xml"},
	".tsv":   {"text/plain", "text/tab-separated-values"},
	".xml":   {"text/plain", "application/xml"},
	".docx":  {"application/zip", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	".pptx":  {"application/zip", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	".xlsx":  {"application/zip", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
}

// mediaType guesses the type of a file from its first bytes and its name.
func mediaType(name string, head []byte) string {
	media := sniff(head)
	if r, ok := refined[strings.ToLower(path.Ext(name))]; ok && r.of == media {
		return r.media
	}
	return media
}

func sniff(head []byte) string {
	for _, m := range magic {
		if bytes.HasPrefix(head, []byte(m.begin)) {
			return m.media
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "application/zip"
	case within(head, 0, "RIFF") && within(head, 8, "WEBP"):
		return "image/webp"
	case within(head, 0, "RIFF") && within(head, 8, "WAVE"):
		return "audio/wav"
	case within(head, 4, "ftyp"):
		return "video/mp4"
	case isText(head):
		return "text/plain"
	}
	return "application/octet-stream"
}

func within(head []byte, at int, what string) bool {
	return len(head) >= at+len(what) && string(head[at:at+len(what)]) == what
}

// isText: UTF-8 without the control characters that text does not have. A
// character cut by the end of head is no fault.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		switch {
		case r == utf8.RuneError && n == 1:
			return len(head) < utf8.UTFMax && !utf8.FullRune(head)
		case r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r), r == 0x7f:
			return false
		}
		head = head[n:]
	}
	return true
}
