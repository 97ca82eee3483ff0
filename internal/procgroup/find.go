package procgroup

import (
	"fmt"
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
// must be there and executable.
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
	return nil
}
