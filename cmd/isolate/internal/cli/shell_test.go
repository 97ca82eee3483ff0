package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// onlySh makes a directory in which sh is the only program.
func onlySh(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sh, filepath.Join(dir, "sh")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The command of shell starts bash, and sh where there is no bash.
func TestShellProgram(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{os.Getenv("PATH"): "bash 42", onlySh(t): "sh 42"} {
		cmd := exec.Command(shellProgram[0], shellProgram[1:]...)
		cmd.Env = []string{"PATH=" + path}
		cmd.Stdin = strings.NewReader("echo $0 $((6*7))\n")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("with PATH %s: %q, %v; want %q", path, out, err, want)
		}
	}
}
