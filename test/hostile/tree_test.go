package hostile

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// tools are the host's programs that a small root gets.
var tools = []string{"sh", "cat", "ls", "id", "env", "true", "find", "grep", "sort", "tr", "cut", "head", "uname", "hostname", "sleep", "pwd", "mkdir"}

// library is a line of ldd that names a file.
var library = regexp.MustCompile(`(/\S+) \(0x`)

// smallRoot makes a root file system with a shell and a few tools, copied from
// the host with the libraries that they need, at dir.
func smallRoot(t *testing.T, dir string) string {
	t.Helper()
	files := map[string]string{} // place inside -> file of the host
	for _, name := range tools {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files["/bin/"+name] = path
		out, err := exec.Command("ldd", path).CombinedOutput()
		if err != nil {
			t.Fatalf("ldd %s: %v: %s", path, err, out)
		}
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			files[m[1]] = m[1]
		}
	}
	for inside, host := range files {
		b, err := os.ReadFile(host)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, inside)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
