package net

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// isolate is the command, with isolate-netd beside it, as test/all builds them.
func isolateCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	bedDir(t)
	bin := os.Getenv("ISOLATE_BIN")
	if bin == "" {
		t.Skip("needs ISOLATE_BIN, the command to test, as test/all sets it")
	}
	c := exec.Command(bin, args...)
	c.Dir = t.TempDir()
	return c
}

// The build step has the network and the program what it fetched, not the other
// way around.
func TestBuildThenRun(t *testing.T) {
	main := `import hello, socket
try: print(socket.gethostbyname("registry.example"))
except OSError as e: print("no network")
try: open("/build/x", "w")
except OSError as e: print("read-only")
`
	c := isolateCommand(t, "run", "--no-server", "--build", "python3 -m pip install -q --no-cache-dir --disable-pip-version-check --index-url https://registry.example/simple -r requirements.txt",
		"--build-net", "allow:registry.example,cdn.example", "--in", "requirements.txt", "main.py")
	for name, text := range map[string]string{"main.py": main, "requirements.txt": "hello\n"} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// the world's certificate is in the bundle that programs use; pip has its own
	c.Args = append([]string{c.Args[0], "run", "--env", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt"}, c.Args[2:]...)
	var errs strings.Builder
	c.Stderr = &errs
	b, err := c.Output()
	if err != nil || string(b) != "hello from the wheel\nno network\nread-only\n" {
		t.Errorf("%v\n%s\n%s", err, b, &errs)
	}
	c = isolateCommand(t, "run", "--no-server", "--build", "curl -sS https://evil.example/", "--build-net", "allow:registry.example", "main.py")
	if err := os.WriteFile(filepath.Join(c.Dir, "main.py"), []byte("print('ran')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err = c.CombinedOutput()
	if err == nil || strings.Contains(string(b), "ran\n") || !strings.Contains(string(b), "build: network denied evil.example") || !strings.Contains(string(b), "build step failed") {
		t.Errorf("%v\n%s", err, b)
	}
}
