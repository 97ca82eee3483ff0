package stub_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/bridge/stub"
)

// parse reads a schema as an author would write it.
func parse(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// echo makes a tool that answers with its arguments.
func echo(name, about string, input, output *jsonschema.Schema) bridge.Tool {
	return bridge.Tool{Name: name, Description: about, Input: input, Output: output,
		Run: func(_ context.Context, c bridge.Call) (bridge.Reply, error) {
			return bridge.Reply{Value: c.Args}, nil
		}}
}

// generate writes the modules of tools into a directory of the test.
func generate(t testing.TB, tools ...bridge.Tool) string {
	t.Helper()
	set, err := bridge.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	files, err := stub.Generate(set)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, files)
	return dir
}

func write(t testing.TB, dir string, files []stub.File) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if !filepath.IsLocal(f.Path) {
			t.Fatalf("path %q leaves the directory", f.Path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// host serves tools from files as long as the test runs, and gives the
// directory of the modules and that of the bridge.
type host struct {
	modules, bridge string
	close           func()
}

func serve(t testing.TB, o bridge.Options, tools ...bridge.Tool) *host {
	t.Helper()
	set, err := bridge.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{modules: generate(t, tools...), bridge: filepath.Join(memory(t), "bridge")}
	broker := bridge.NewBroker(set, o)
	watcher, err := bridge.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	server, err := bridge.ServeFiles(watcher, handles(t, h.bridge), broker)
	if err != nil {
		t.Fatal(err)
	}
	h.close = func() {
		broker.Close()
		if err := errors.Join(server.Close(), watcher.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(h.close)
	return h
}

// memory is a directory of the test in memory where there is one.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "isolate-stub-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// handles makes the directories of a bridge at path, with the claims and the
// workspace beside it.
func handles(t testing.TB, path string) bridge.Handles {
	t.Helper()
	open := func(dir string) *os.File {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	h := bridge.Handles{Flat: open(path), Req: open(path + "/req"), Resp: open(path + "/resp"),
		Claim: open(path + "-claims"), Workspace: open(path + "-workspace")}
	t.Cleanup(func() { h.Workspace.Close() })
	return h
}

// env is the environment of a program of this host.
func (h *host) env() []string {
	return []string{
		"PATH=" + filepath.Join(h.modules, stub.BinPath) + ":/usr/local/bin:/usr/bin:/bin",
		"PYTHONPATH=" + filepath.Join(h.modules, stub.PythonPath),
		"NODE_PATH=" + filepath.Join(h.modules, stub.NodePath),
		"PYTHONDONTWRITEBYTECODE=1", "LANG=C.UTF-8",
		"ISOLATE_BRIDGE=" + h.bridge,
	}
}

// output runs a program and gives what it printed.
func (h *host) output(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, code := h.run(t, name, args...)
	if code != 0 {
		t.Fatalf("%s ended with %d:\n%s", name, code, out)
	}
	return strings.TrimSpace(out)
}

func (h *host) run(t testing.TB, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = h.env()
	cmd.Dir = h.modules
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

const python = "/usr/bin/python3"
