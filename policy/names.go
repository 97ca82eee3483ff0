package policy

import (
	"fmt"
	"strings"
)

var (
	profileNames     = []string{ProfileDefault: "default", ProfileCompat: "compat", ProfileStrict: "strict"}
	endOnOutputNames = []string{KeepRunning: "keep-running", EndRun: "end-run"}
)

// String is the name of the profile, or "Profile(7)" for one that is none.
func (p Profile) String() string { return nameOf("Profile", profileNames, int(p)) }

// MarshalText is the name of the profile; a value that is none is an error.
func (p Profile) MarshalText() ([]byte, error) {
	return marshalName("profile", profileNames, int(p))
}

// UnmarshalText takes exactly one of the names: default, compat, strict. The
// error is a Problem and leaves the profile as it was.
func (p *Profile) UnmarshalText(text []byte) error {
	n, err := parseName("profile", string(text), profileNames)
	if err == nil {
		*p = Profile(n)
	}
	return err
}

// String is the name of the answer, or "EndOnOutput(7)" for one that is none.
func (e EndOnOutput) String() string { return nameOf("EndOnOutput", endOnOutputNames, int(e)) }

// MarshalText is the name of the answer; a value that is none is an error.
func (e EndOnOutput) MarshalText() ([]byte, error) {
	return marshalName("end-on-output", endOnOutputNames, int(e))
}

// UnmarshalText takes exactly one of the names: keep-running, end-run. The
// error is a Problem and leaves the answer as it was.
func (e *EndOnOutput) UnmarshalText(text []byte) error {
	n, err := parseName("end-on-output", string(text), endOnOutputNames)
	if err == nil {
		*e = EndOnOutput(n)
	}
	return err
}

// ParseWeakening takes exactly one of the names in Weakenings. The error is a
// Problem.
func ParseWeakening(text string) (Weakening, error) {
	names := weakeningNames()
	n, err := parseName("weakening", text, names)
	if err != nil {
		return "", err
	}
	return Weakening(names[n]), nil
}

func weakeningNames() []string {
	names := make([]string, len(Weakenings))
	for i, w := range Weakenings {
		names[i] = string(w)
	}
	return names
}

func nameOf(typ string, names []string, n int) string {
	if n < 0 || n >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, n)
	}
	return names[n]
}

func marshalName(noun string, names []string, n int) ([]byte, error) {
	if n < 0 || n >= len(names) {
		return nil, fmt.Errorf("cannot marshal %s %d: it has no name", noun, n)
	}
	return []byte(names[n]), nil
}

// parseName is the index of a name.
func parseName(noun, text string, names []string) (int, error) {
	for i, name := range names {
		if text == name {
			return i, nil
		}
	}
	return 0, refuse(noun, text, "no "+noun+" has that name", suggest(text, names))
}

// suggest is the hint for a name that does not exist.
func suggest(text string, names []string) string {
	if near, ok := Nearest(text, names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	last := len(names) - 1
	return fmt.Sprintf("write %s or %s", strings.Join(names[:last], ", "), names[last])
}
