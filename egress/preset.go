package egress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// presets are the hosts that package managers need, as their own documents say.
var presets = map[string][]Rule{
	"pip": {{Name: "pypi.org"}, {Name: "files.pythonhosted.org"}},
	"npm": {{Name: "registry.npmjs.org"}},
	// The proxy answers downloads with a redirect to storage that all customers
	// of a cloud share; only its own bucket is allowed, which needs a look into
	// the requests (golang/go#68412).
	"go": {{Name: "proxy.golang.org"}, {Name: "sum.golang.org"},
		{Name: "storage.googleapis.com", Methods: []string{"GET", "HEAD"}, Paths: []string{"/proxy-golang-org-prod/**"}}},
	"cargo": {{Name: "index.crates.io"}, {Name: "static.crates.io"}, {Name: "crates.io"}},
	"apt": {{Name: "deb.debian.org"}, {Name: "security.debian.org"},
		{Name: "deb.debian.org", Protocol: HTTP}, {Name: "security.debian.org", Protocol: HTTP}},
	"git": {{Name: "github.com"}, {Name: "codeload.github.com"}, {Name: "objects.githubusercontent.com"},
		{Name: "gitlab.com"}, {Name: "codeberg.org"}},
}

// Presets are the names that Preset knows, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset is the rules that a package manager needs.
func Preset(name string) ([]Rule, error) {
	r, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("cannot use network preset %q: there is none; there are %s", name, strings.Join(Presets(), ", "))
	}
	return slices.Clone(r), nil
}
