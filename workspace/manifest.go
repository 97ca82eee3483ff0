package workspace

import (
	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Input is a host file or directory copied into the workspace.
type Input struct {
	// Source is a host path. It may be a symbolic link; links below a source
	// directory are another matter, see CopyIn. Required.
	Source string
	// Target is the path below /workspace; empty means the source's base name
	// for a file, and the workspace itself for a directory.
	Target string
}

// Manifest lists what a copy moved and what it left out.
type Manifest struct {
	// Files are the regular files that were copied, and in CopyIn the links,
	// in the order of the copy: depth first, names sorted by bytes.
	Files []Entry `json:"files"`
	// Skipped is what was left out, each with its reason. It is empty exactly
	// when everything was copied.
	Skipped []Entry `json:"skipped,omitempty"`
	// Dirs is how many directories were made.
	Dirs int `json:"dirs"`
	// Bytes is the sum of the sizes of Files.
	Bytes int64 `json:"bytes"`
}

// Entry is one file of a Manifest.
type Entry struct {
	// Path is relative to the workspace. In Skipped a name that is not fit to
	// be shown has its bytes escaped as in a Go string.
	Path string `json:"path"`
	// Size is the number of bytes copied, holes included; in Skipped the size
	// that was seen, 0 if none was.
	Size int64 `json:"size"`
	// Mode is the permission bits as written, octal, for example "0644".
	Mode string `json:"mode,omitempty"`
	// SHA256 is the digest of the bytes copied, hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Type is a guess of the media type, from the first 512 bytes and the
	// end of the name: "image/png". The program chose both, so it is a hint.
	Type string `json:"type,omitempty"`
	// Link is the text of a symbolic link, escaped as in Path and cut at
	// 255 bytes.
	Link string `json:"link,omitempty"`
	// Why says why an entry was skipped or what is remarkable about it.
	Why string `json:"why,omitempty"`
}

// linkMax bounds the text of a link in a manifest, in bytes.
const linkMax = 255

// leave lists what is left out. It returns nil, to end the caller with: what
// is left out is no error.
func (m *Manifest) leave(rel string, st unix.Stat_t, why string) error {
	e := Entry{Path: shown(rel), Why: why}
	if dirfd.KindOf(st.Mode) == dirfd.File {
		e.Size = st.Size
	}
	m.Skipped = append(m.Skipped, e)
	return nil
}

// leaveLink is leave for a symbolic link, whose text is told.
func (m *Manifest) leaveLink(rel, text, why string) error {
	m.Skipped = append(m.Skipped, Entry{Path: shown(rel), Link: linkText(text), Why: why})
	return nil
}

func linkText(text string) string { return escaped(text[:min(len(text), linkMax)]) }
