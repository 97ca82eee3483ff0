package policy

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/isolate-run/isolate/preload"
)

// durationUnits are the units a duration text may have. The last is what
// time.Duration prints for "us".
var durationUnits = []string{"h", "m", "s", "ms", "us", "ns", "µs"}

const durationHint = `write a number and a unit, such as "60s", "500ms" or "2m"`

// ParseDuration reads a duration above zero such as "60s", "500ms", "1h30m".
// The units are h, m, s, ms, us and ns; a number without one is refused. The
// error is a Problem.
func ParseDuration(text string) (time.Duration, error) { return parseDuration("duration", text) }

func parseDuration(noun, text string) (time.Duration, error) {
	if cause, hint := durationForm(text); cause != "" {
		return 0, refuse(noun, text, cause, hint)
	}
	// The form is right, so the only thing package time can still refuse is
	// the amount.
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, refuse(noun, text, "it is more than 63 bits of nanoseconds hold", fmt.Sprintf("write %q at most", shortDuration(MaxWall)))
	case d == 0:
		return 0, refuse(noun, text, "it is zero", zeroHint)
	}
	return d, nil
}

// durationForm says what is wrong with the form of a duration; "" is nothing.
func durationForm(text string) (cause, hint string) {
	switch {
	case text == "":
		return "it is empty", durationHint
	case text[0] == '-':
		return "it is negative", zeroHint
	case isDecimal(text) && strings.Trim(text, "0.") == "":
		return "it is zero and has no unit", zeroHint
	}
	for rest := text; rest != ""; {
		var number string
		number, rest = splitNumber(rest)
		unit, next := rest, ""
		if i := strings.IndexAny(rest, "0123456789."); i >= 0 {
			unit, next = rest[:i], rest[i:]
		}
		if cause, hint := durationPart(number, unit); cause != "" {
			return cause, hint
		}
		rest = next
	}
	return "", ""
}

// durationPart checks one number with its unit.
func durationPart(number, unit string) (cause, hint string) {
	switch {
	case !isDecimal(number):
		return "it is not a number with a unit", durationHint
	case unit == "":
		return "it has no unit", fmt.Sprintf("write %q or %q", number+"s", number+"ms")
	}
	for _, u := range durationUnits {
		if unit == u {
			return "", ""
		}
	}
	cause = fmt.Sprintf("%s is not one of its units", quote(unit))
	switch meant := strings.ToLower(strings.TrimSpace(unit)); meant {
	case "sec", "secs", "second", "seconds", "s":
		return cause, fmt.Sprintf("write %q", number+"s")
	case "min", "mins", "minute", "minutes":
		return cause, fmt.Sprintf("write %q", number+"m")
	case "ms", "h":
		return cause, fmt.Sprintf("write %q", number+meant)
	}
	return cause, "the units are h, m, s, ms, us and ns; a day is \"24h\""
}

// shortDuration is the duration without its zero parts: "24h", not "24h0m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParsePreload reads what to start ahead: "python", or "python:numpy,pandas".
// The error is a Problem.
func ParsePreload(text string) (preload.Spec, error) {
	s, bad := preload.Parse(text)
	if bad != nil {
		return preload.Spec{}, Problem{Field: "preload", What: bad.What, Hint: bad.Hint}
	}
	if s.IsZero() {
		return s, refuse("preload", text, "it is empty", "write python, or leave it out")
	}
	return s, nil
}

// ParseCPUs reads a number of processors above zero such as "2" or "0.5". The
// error is a Problem.
func ParseCPUs(text string) (float64, error) {
	const hint = `write a number of processors, such as "0.5" or "2"`
	number, rest := splitNumber(text)
	switch {
	case text == "":
		return 0, refuse("cpus", text, "it is empty", hint)
	case text[0] == '-':
		return 0, refuse("cpus", text, "it is negative", hint)
	case !isDecimal(number):
		return 0, refuse("cpus", text, "it is not a number", hint)
	case rest != "":
		return 0, refuse("cpus", text, "it has no unit, and "+quote(rest)+" is not part of a number", hint)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, refuse("cpus", text, "it is not a number", hint)
	}
	if v == 0 {
		return 0, refuse("cpus", text, "it is zero", zeroHint)
	}
	return v, nil
}

// ParseCount reads a whole number above zero, for PIDs, Files and Inodes. The
// error is a Problem.
func ParseCount(text string) (int, error) {
	const hint = `write a whole number, such as "128"`
	digits, rest := splitNumber(text)
	switch {
	case text == "":
		return 0, refuse("count", text, "it is empty", hint)
	case text[0] == '-':
		return 0, refuse("count", text, "it is negative", zeroHint)
	case digits != "" && rest != "":
		return 0, refuse("count", text, "it has no unit, and "+quote(rest)+" is not part of a number", hint)
	case digits == "" || strings.Contains(digits, "."):
		return 0, refuse("count", text, "it is not a whole number", hint)
	}
	n, err := strconv.Atoi(digits)
	if err != nil { // only the range can be wrong
		return 0, refuse("count", text, "it is too large a number", "write a smaller one")
	}
	if n == 0 {
		return 0, refuse("count", text, "it is zero", zeroHint)
	}
	return n, nil
}

// ParseBind reads "HOST" or "HOST:PATH": a host path and where it is shown
// inside, the same place when left out. PATH must be absolute and is cleaned.
// HOST is returned as written and may be relative: the caller knows the
// directory it is relative to and makes it absolute. A path with a colon
// cannot be written this way; a policy file can hold it. The error is a Problem.
func ParseBind(text string) (Bind, error) {
	const form = `write HOST or HOST:PATH, such as "/srv/data:/data"`
	parts := strings.Split(text, ":")
	last := parts[len(parts)-1]
	target := parts[min(1, len(parts)-1)]
	switch {
	case parts[0] == "":
		return Bind{}, refuse("bind", text, "it has no host path", form)
	case strings.Contains(text, "\x00"):
		return Bind{}, refuse("bind", text, "it has a zero byte", form)
	case parts[0] == "~" || strings.HasPrefix(parts[0], "~/"):
		return Bind{}, refuse("bind", text, "the shell has not expanded ~", "write the home directory in full")
	case len(parts) > 1 && last == "ro":
		return Bind{}, refuse("bind", text, "every bind is read-only", `leave out ":ro"`)
	case len(parts) > 1 && last == "rw":
		return Bind{}, refuse("bind", text, "every bind is read-only", "copy the files in and out of /workspace instead")
	case len(parts) > 2:
		return Bind{}, refuse("bind", text, "it has more than one colon", form+"; a path with a colon needs a policy file")
	case len(parts) == 1:
		return Bind{Source: parts[0]}, nil
	case !path.IsAbs(target):
		return Bind{}, refuse("bind", text, "the path inside is not absolute", form)
	case hasDotDot(target):
		return Bind{}, refuse("bind", text, `the path inside has ".."`, fmt.Sprintf("write %q", parts[0]+":"+path.Clean(target)))
	}
	return Bind{Source: parts[0], Target: path.Clean(target)}, nil
}

func hasDotDot(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// ParseEnv reads "NAME=VALUE". NAME alone is refused, because nothing is
// inherited. VALUE may be empty. The error is a Problem.
func ParseEnv(text string) (name, value string, err error) {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return "", "", refuse("variable", text, "it has no value and nothing is inherited", `write NAME=VALUE, such as "LANG=C.UTF-8"`)
	}
	if cause, hint := envForm(name, value); cause != "" {
		// The value may be a secret: only the name is repeated.
		return "", "", refuse("variable", name, cause, hint)
	}
	return name, value, nil
}

// envForm says what is wrong with a variable; "" is nothing.
func envForm(name, value string) (cause, hint string) {
	switch {
	case name == "":
		return "it has no name", `write NAME=VALUE, such as "LANG=C.UTF-8"`
	case strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "",
		name[0] >= '0' && name[0] <= '9':
		return "its name is not letters, digits and _ with no digit first", `write a name such as "MY_NAME"`
	case strings.Contains(value, "\x00"):
		return "its value has a zero byte, which ends a variable", "take out the zero byte"
	}
	return "", ""
}
