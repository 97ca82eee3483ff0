package workspace

// Input is a host file or directory copied into the workspace.
type Input struct {
	// Source is a host path.
	Source string
	// Target is the path below /workspace; empty means the source's base name
	// for a file, and the workspace itself for a directory.
	Target string
}

// Manifest lists what a copy moved and what it left out.
type Manifest struct {
	Files   []Entry `json:"files"`
	Skipped []Entry `json:"skipped,omitempty"`
	Bytes   int64   `json:"bytes"`
}

// Entry is one file of a Manifest.
type Entry struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Mode is the permission bits as written, octal, for example "0644".
	Mode string `json:"mode,omitempty"`
	// SHA256 is the digest of the bytes copied, hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Why says why an entry was skipped or what is remarkable about it.
	Why string `json:"why,omitempty"`
}
