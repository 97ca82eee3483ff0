package isolate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/isolate-run/isolate"

// lattice says which packages of this module each package may import. Tests
// are not bound by it. A change here is a design decision: docs/adr.
var lattice = map[string][]string{
	"internal/dirfd":        {},
	"internal/kernfile":     {},
	"internal/splice":       {},
	"internal/filtertest":   {},
	"internal/nearest":      {},
	"internal/strictjson":   {},
	"internal/testenv":      {},
	"internal/tracecontext": {},
	"internal/otlptest":     {},
	"egress":                {},
	"egress/control":        {"egress"},
	"egress/netd":           {"egress", "egress/control"},
	"cmd/isolate-netd":      {"egress/netd"},
	"internal/tomltext":     {},
	"preload":               {},
	"policy":                {"egress", "internal/nearest", "internal/tomltext", "preload"},
	"host":                  {},
	"namespaces":            {},
	"rootfs":                {},
	"denial":                {},
	"audit":                 {},
	"seccompprofile":        {"policy"},
	"workspace":             {"internal/dirfd"},
	"plan":                  {"egress", "policy", "namespaces", "preload", "rootfs", "seccompprofile"},
	"container/cgroup":      {"internal/kernfile"},
	"container/keeper":      {},
	"bridge":                {"internal/dirfd", "internal/nearest", "internal/plaintext", "internal/strictjson"},
	"bridge/loan":           {"bridge", "internal/dirfd"},
	"bridge/stub":           {"bridge"},
	"internal/plaintext":    {},
	"internal/procgroup":    {},
	"bridge/command":        {"bridge", "internal/nearest", "internal/plaintext", "internal/procgroup", "internal/strictjson", "internal/tracecontext"},
	"bridge/mcp":            {"bridge", "internal/plaintext", "internal/procgroup", "internal/strictjson", "internal/tracecontext"},
	"bridge/approve":        {"bridge", "internal/plaintext", "internal/procgroup", "internal/strictjson"},
	"bridge/toolfile":       {"internal/tomltext", "bridge", "policy", "bridge/approve", "bridge/command", "bridge/mcp"},
	"container":             {"container/cgroup", "container/keeper", "internal/kernfile", "internal/plaintext", "namespaces", "plan", "preload", "rootfs"},
	".":                     {"egress", "egress/control", "audit", "bridge", "bridge/stub", "container", "container/cgroup", "denial", "host", "internal/dirfd", "internal/splice", "internal/tracecontext", "plan", "policy", "preload", "workspace"},

	"metrics":   {"."},
	"telemetry": {".", "audit", "bridge", "internal/plaintext", "internal/tracecontext", "metrics"},
	"client":    {},
	"server":    {".", "client", "egress", "internal/splice", "internal/strictjson", "metrics", "plan", "policy", "workspace"},

	"cmd/isolate":                   {".", "cmd/isolate/internal/ahead", "cmd/isolate/internal/cli"},
	"cmd/isolate/isolate-otel":      {".", "cmd/isolate/internal/ahead", "cmd/isolate/internal/cli", "cmd/isolate/internal/otlp"},
	"cmd/isolate/internal/otlp":     {"cmd/isolate/internal/cli", "internal/plaintext", "telemetry"},
	"cmd/isolate/internal/ahead":    {},
	"cmd/isolate/internal/cli":      {".", "audit", "bench/compare", "bench/peers", "bench/result", "egress", "client", "internal/plaintext", "internal/splice", "internal/tracecontext", "server", "bridge", "bridge/approve", "bridge/command", "bridge/loan", "bridge/mcp", "bridge/stub", "bridge/toolfile", "host", "plan", "policy", "workspace", "cmd/isolate/internal/program", "cmd/isolate/internal/prove", "cmd/isolate/internal/safeterm"},
	"cmd/isolate/internal/program":  {},
	"cmd/isolate/internal/prove":    {".", "audit", "policy"},
	"cmd/isolate/internal/safeterm": {},
	"cmd/isolate/internal/genman":   {"cmd/isolate/internal/cli"},
	"bench":                         {},
	"bench/result":                  {"internal/plaintext"},
	"bench/peers":                   {"bench/result"},
	"bench/compare":                 {".", "bench/peers", "bench/result", "internal/plaintext", "policy"},
	"examples/invoices-go":          {"."},
	"test/vm/sample":                {},
	"test/programs":                 {},
}

// only lists outside modules that one package alone may import.
var only = map[string]string{
	"github.com/opencontainers/runc/":      "container",
	"github.com/seccomp/libseccomp-golang": "seccompprofile",
	"github.com/vishvananda/netns":         "namespaces",
	"github.com/syndtr/gocapability":       "container",
	"github.com/pelletier/go-toml":         "policy",

	"github.com/modelcontextprotocol/go-sdk": "bridge/mcp",
	"golang.org/x/mod/":                      "audit",
}

// also lists the exceptions to only, with the reason.
var also = map[string]string{
	"internal/tomltext github.com/pelletier/go-toml":                "what policies and tools.toml share",
	"bridge/toolfile github.com/pelletier/go-toml":                  "tools.toml is strict like a policy, and of another shape",
	"host github.com/seccomp/libseccomp-golang":                     "isolate doctor reports the library's versions",
	"cmd/isolate/internal/cli github.com/seccomp/libseccomp-golang": "isolate version reports the library's version",
}

// source is one parsed Go file of the module.
type source struct {
	pkg  string // directory
	name string
	file *ast.File
	set  *token.FileSet
}

// sources parses every Go file that is not below testdata or hidden.
func sources(t *testing.T, mode parser.Mode) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && p != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(base, ".go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, p, nil, mode|parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{filepath.Dir(p), p, f, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

func TestLattice(t *testing.T) {
	for _, s := range sources(t, parser.ImportsOnly) {
		if isTest(s.name) {
			continue
		}
		allowed, known := lattice[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the lattice", s.name, s.pkg)
			continue
		}
		for _, im := range s.file.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			if path == module || strings.HasPrefix(path, module+"/") {
				dir := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
				if dir == "" {
					dir = "."
				}
				if !slices.Contains(allowed, dir) {
					t.Errorf("%s imports %s, which the lattice does not allow to %s", s.name, dir, s.pkg)
				}
			}
			for prefix, owner := range only {
				bare := strings.TrimSuffix(prefix, "/")
				if (strings.HasPrefix(path, prefix) || path == bare) && s.pkg != owner && also[s.pkg+" "+bare] == "" {
					t.Errorf("%s imports %s: only package %s may", s.name, path, owner)
				}
			}
		}
	}
}

// The far side of a clone may use the standard library and x/sys only.
func TestFarSideIsSmall(t *testing.T) {
	for _, s := range sources(t, parser.ImportsOnly) {
		if s.pkg != "container/keeper" || isTest(s.name) {
			continue
		}
		for _, im := range s.file.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			if strings.Contains(path, ".") && path != "golang.org/x/sys/unix" {
				t.Errorf("%s imports %s", s.name, path)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	have := map[string]bool{}
	all := map[string]bool{}
	for _, s := range sources(t, parser.PackageClauseOnly) {
		if isTest(s.name) {
			continue
		}
		all[s.pkg] = true
		if s.file.Doc == nil {
			continue
		}
		if have[s.pkg] {
			t.Errorf("package %s has more than one package comment", s.pkg)
		}
		have[s.pkg] = true
		name := s.file.Name.Name
		if want := "Package " + name + " "; name != "main" && !strings.HasPrefix(s.file.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not begin with %q", s.name, want)
		}
	}
	for pkg := range all {
		if !have[pkg] {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// enders are the files that may end the process; libraries return.
var enders = []string{"cmd/isolate/main.go", "cmd/isolate-netd/main.go", "cmd/isolate/isolate-otel/main.go", "examples/invoices-go/main.go", "init.go", "cmd/isolate/internal/genman/main.go", "internal/filtertest/filtertest.go"}

func TestNobodyEndsTheProcess(t *testing.T) {
	for _, s := range sources(t, 0) {
		if isTest(s.name) || slices.Contains(enders, s.name) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				if x, ok := f.X.(*ast.Ident); ok {
					name = x.Name + "." + f.Sel.Name
				}
			}
			if name == "panic" || name == "os.Exit" || strings.HasPrefix(name, "log.") {
				if s.pkg == "host" && name == "os.Exit" { // a probing child, documented at its call
					return true
				}
				t.Errorf("%s: %s", s.set.Position(call.Pos()), name)
			}
			return true
		})
	}
}

// Every package is initialized for a cold start: what takes time is made when
// it is first used (docs/adr/0006-cold-start.md).
func TestNobodyCompilesAtStart(t *testing.T) {
	for _, s := range sources(t, 0) {
		if isTest(s.name) {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: an init function", s.set.Position(d.Pos()))
			}
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				x, ok := n.(*ast.SelectorExpr)
				if ok && (strings.HasPrefix(x.Sel.Name, "MustCompile") || x.Sel.Name == "MakeTable") {
					t.Errorf("%s: %s at start; use sync.OnceValue", s.set.Position(n.Pos()), x.Sel.Name)
				}
				_, lazy := n.(*ast.FuncLit)
				return !lazy
			})
		}
	}
}

func TestNoBareBools(t *testing.T) {
	for _, s := range sources(t, 0) {
		if isTest(s.name) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			for _, p := range f.Type.Params.List {
				if id, ok := p.Type.(*ast.Ident); ok && id.Name == "bool" {
					t.Errorf("%s: exported %s takes a bare bool", s.set.Position(f.Pos()), f.Name.Name)
				}
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t, 0) {
		if lines := s.set.Position(s.file.End()).Line; lines > 500 {
			t.Errorf("%s has %d lines: is a room missing?", s.name, lines)
		}
	}
}

// Every module that go.mod requires directly has a line in the dependency ADR.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	adr, err := os.ReadFile("docs/adr/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mod), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || strings.Contains(line, "// indirect") || !strings.Contains(f[0], ".") {
			continue
		}
		if !strings.Contains(string(adr), f[0]) {
			t.Errorf("docs/adr/dependencies.md does not explain %s", f[0])
		}
	}
}
