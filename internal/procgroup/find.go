package procgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// BaseEnv picks from an environment what a command of the host gets without
// asking: PATH, HOME and LANG. Everything else is named by whoever wants it.
func BaseEnv(environ []string) []string {
	var env []string
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); name == "PATH" || name == "HOME" || name == "LANG" {
			env = append(env, v)
		}
	}
	return env
}

// Find is the file of a command: a name with a slash is a path below dir, if
// it is not absolute; one without is looked for in the PATH of env. The file
// must be there and executable, and the interpreter be there that its first line
// names, if it is a script.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("cannot find a command without a name")
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, d := range filepath.SplitList(path) {
		// An empty or relative element would mean the working directory.
		if file := filepath.Join(d, name); filepath.IsAbs(d) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("cannot find %q in PATH: write a path with a slash, such as %q", name, "./"+name)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return fmt.Errorf("cannot use command: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot use command %q: it is no regular file", file)
	case unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("cannot use command %q: it is not executable; run chmod +x on it", file)
	}
	if name := interpreter(file); name != "" {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot use command %q: its first line names the interpreter %q, which does not exist", file, name)
		}
	}
	return nil
}

// interpreter is the absolute path in the "#!" line of a file; empty if there
// is none, or if the file can be executed and not read.
func interpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel reads no more
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, found := strings.CutPrefix(line, "#!")
	name, _, _ := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
	name, _, _ = strings.Cut(name, "\t")
	if !found || !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return ""
	}
	return name
}
