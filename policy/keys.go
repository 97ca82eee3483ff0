package policy

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/isolate-run/isolate/internal/tomltext"
)

// key is one setting of a policy file.
type key struct {
	name string
	// takes says what the value is, for the sentence "it is …, not …".
	takes string
	// example is a line to write in its place.
	example string
	// kinds are the kinds of TOML value set understands.
	kinds []unstable.Kind
	// set reads the text of a value into the policy. The error is a Problem.
	// Nil for the settings with a shape of their own: allow, env, net, read-only.
	set func(p *Policy, text string) error
}

// The settings with a shape of their own.
const (
	keyAllow    = "allow"
	keyEnv      = "env"
	keyReadOnly = "read-only"
	keyNet      = "net"
)

// keys are all settings of a policy file, in the order of docs/policy.md. They
// are made at first use: whoever decodes nothing pays nothing at start.
var keys = sync.OnceValue(func() []key {
	return []key{
		nameKey("profile", `profile = "strict"`, func(p *Policy, text string) error { return p.Profile.UnmarshalText([]byte(text)) }),
		stringKey("rootfs", `rootfs = "/srv/rootfs"`, func(p *Policy) *string { return &p.Rootfs }),
		stringKey("hostname", `hostname = "sandbox"`, func(p *Policy) *string { return &p.Hostname }),
		nameKey("preload", `preload = "python:numpy"`, func(p *Policy, text string) (err error) {
			p.Preload, err = ParsePreload(text)
			return err
		}),
		{name: keyReadOnly, takes: "a list of tables with source and target", example: "[[read-only]] and below it source = \"/srv/data\""},
		{name: keyEnv, takes: "a table of strings", example: "[env] and below it NAME = \"value\""},
		{name: keyNet, takes: "a table with mode, and lists of tables allow and deny", example: netExample},
		sizeKey("memory", `memory = "512M"`, func(p *Policy) *Size { return &p.Memory }),
		{"cpus", "a number", "cpus = 0.5", []unstable.Kind{unstable.Integer, unstable.Float}, setCPUs},
		countKey("pids", "pids = 128", func(p *Policy) *int { return &p.PIDs }),
		sizeKey("disk", `disk = "256M"`, func(p *Policy) *Size { return &p.Disk }),
		countKey("inodes", "inodes = 65536", func(p *Policy) *int { return &p.Inodes }),
		countKey("files", "files = 1024", func(p *Policy) *int { return &p.Files }),
		sizeKey("output", `output = "16M"`, func(p *Policy) *Size { return &p.Output }),
		nameKey("end-on-output", `end-on-output = "end-run"`, func(p *Policy, text string) error { return p.EndOnOutput.UnmarshalText([]byte(text)) }),
		durationKey("time", `time = "60s"`, func(p *Policy) *span { return (*span)(&p.Wall) }),
		durationKey("cpu-time", `cpu-time = "30s"`, func(p *Policy) *span { return (*span)(&p.CPUTime) }),
		durationKey("grace", `grace = "2s"`, func(p *Policy) *span { return (*span)(&p.Grace) }),
		{name: keyAllow, takes: "a list of names in quotes", example: `allow = ["weak-limits"]`},
	}
})

var inQuotes = []unstable.Kind{unstable.String}

func nameKey(name, example string, set func(*Policy, string) error) key {
	return key{name, "a name in quotes", example, inQuotes, set}
}

func stringKey(name, example string, field func(*Policy) *string) key {
	return key{name, "a string", example, inQuotes, func(p *Policy, text string) error {
		if text == "" {
			return refuse(name, text, "it is empty", "leave it out for the default")
		}
		*field(p) = text
		return nil
	}}
}

func sizeKey(name, example string, field func(*Policy) *Size) key {
	return key{name, "a size in quotes", example, inQuotes, func(p *Policy, text string) (err error) {
		*field(p), err = parseSize(name, text)
		return err
	}}
}

func durationKey(name, example string, field func(*Policy) *span) key {
	return key{name, "a duration in quotes", example, inQuotes, func(p *Policy, text string) error {
		d, err := parseDuration(name, text)
		*field(p) = span(d)
		return err
	}}
}

func countKey(name, example string, field func(*Policy) *int) key {
	return key{name, "a whole number", example, []unstable.Kind{unstable.Integer}, func(p *Policy, text string) error {
		// Base 0 knows the prefixes and underscores of TOML.
		n, err := strconv.ParseInt(text, 0, strconv.IntSize)
		switch {
		case err != nil && !strings.HasPrefix(text, "-"):
			return refuse(name, text, "it is too large a number", "write a smaller one, such as "+example)
		case err != nil || n < 0:
			return refuse(name, text, "it is negative", zeroHint)
		case n == 0:
			return refuse(name, text, "it is zero", zeroHint)
		}
		*field(p) = int(n)
		return nil
	}}
}

// setCPUs reads any TOML number; inf, nan and the range are for checkFields.
func setCPUs(p *Policy, text string) error {
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil {
		n, intErr := strconv.ParseInt(text, 0, 64)
		if intErr != nil {
			return refuse("cpus", text, "it is no number of processors", "write cpus = 0.5")
		}
		v = float64(n)
	}
	if v == 0 {
		return refuse("cpus", text, "it is zero", zeroHint)
	}
	p.CPUs = v
	return nil
}

// findKey is the setting of that name.
func findKey(name string) (key, bool) {
	for _, k := range keys() {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func keyNames() []string {
	names := make([]string, len(keys()))
	for i, k := range keys() {
		names[i] = k.name
	}
	return names
}

// wrongKind is the Problem of a value of another kind than a setting takes.
func wrongKind(field string, is unstable.Kind, takes, example string) Problem {
	return Problem{
		Field: field,
		What:  fmt.Sprintf("cannot read %s: it is %s, not %s", field, tomltext.Kind(is), takes),
		Hint:  "write " + example,
	}
}
