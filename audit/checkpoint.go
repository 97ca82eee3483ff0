package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var errNoHash = errors.New("there is no such hash")

// Checkpoint is what a signed note says of a log: C2SP tlog-checkpoint.
type Checkpoint struct {
	// Origin names the log for ever.
	Origin string
	// Size is the number of records, Root the hash of their tree.
	Size int64
	Root tlog.Hash
}

// text is the part of the note that is signed.
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// String is the checkpoint as one line, to be kept on paper.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s %d %s", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

var errNoCheckpoint = errors.New("it is not a checkpoint: three lines, a blank line, signatures")

// maxNote bounds a signed note; a hundred witnesses fit in.
const maxNote = 64 << 10

// parseText reads the signed part of a note. Lines after the third, which the
// form allows, are refused: we write none.
func parseText(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] == "" || len(lines[0]) > 512 {
		return Checkpoint{}, errNoCheckpoint
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return Checkpoint{}, errNoCheckpoint
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return Checkpoint{}, errNoCheckpoint
	}
	return Checkpoint{lines[0], size, tlog.Hash(root)}, nil
}

// ParseCheckpoint reads a signed note without believing it.
func ParseCheckpoint(msg []byte) (Checkpoint, error) {
	if len(msg) > maxNote {
		return Checkpoint{}, errNoCheckpoint
	}
	// What note.Open checks of the form is checked when a signature is.
	text, _, found := strings.Cut(string(msg), "\n\n")
	if !found {
		return Checkpoint{}, errNoCheckpoint
	}
	return parseText(text + "\n")
}

// OpenCheckpoint reads a signed note and gives the checkpoint and the name of
// the key that vouches for it. The error is errBadSignature or errUnknownKey
// (see Reason) or says what is wrong with the form.
func OpenCheckpoint(msg []byte, known note.Verifiers) (Checkpoint, string, error) {
	if len(msg) > maxNote {
		return Checkpoint{}, "", errNoCheckpoint
	}
	n, err := openNote(msg, known)
	if err != nil {
		return Checkpoint{}, "", err
	}
	c, err := parseText(n.Text)
	return c, n.Sigs[0].Name, err
}

var (
	errBadSignature = errors.New("the signature is not that of the key")
	errUnknownKey   = errors.New("it is signed by an unknown key")
)

// openNote is note.Open with the two errors that matter told apart.
func openNote(msg []byte, known note.Verifiers) (*note.Note, error) {
	n, err := note.Open(msg, known)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &invalid):
		return nil, fmt.Errorf("%w %s", errBadSignature, invalid.Name)
	case errors.As(err, &unverified):
		name := ""
		if sigs := unverified.Note.UnverifiedSigs; len(sigs) > 0 {
			name = sigs[0].Name
		}
		return nil, fmt.Errorf("%w %q", errUnknownKey, name)
	}
	return n, err
}
