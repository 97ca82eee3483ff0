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
// names, if it is a script: with "env", the one that env finds.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("cannot find a command without a name")
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, usable(name, env)
	}
	if file := inPath(name, env); file != "" {
		return file, interpreted(file, env)
	}
	return "", fmt.Errorf("cannot find %q in PATH: write a path with a slash, such as %q", name, "./"+name)
}

// inPath is the executable file of that name in the PATH of env; empty if there
// is none.
func inPath(name string, env []string) string {
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	for _, d := range filepath.SplitList(path) {
		// An empty or relative element would mean the working directory.
		if file := filepath.Join(d, name); filepath.IsAbs(d) && executable(file) == nil {
			return file
		}
	}
	return ""
}

func usable(file string, env []string) error {
	if err := executable(file); err != nil {
		return err
	}
	return interpreted(file, env)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		var bare *fs.PathError
		if errors.As(err, &bare) {
			err = bare.Err
		}
		return fmt.Errorf("cannot use command %q: %w", file, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot use command %q: it is no regular file", file)
	case unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("cannot use command %q: it is not executable; run chmod +x on it", file)
	}
	return nil
}

// interpreted says what is wrong with the interpreter of a script.
func interpreted(file string, env []string) error {
	name, argument := interpreter(file)
	if name == "" {
		return nil
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot use command %q: its first line names the interpreter %q, which does not exist", file, name)
	}
	if filepath.Base(name) != "env" {
		return nil
	}
	if name = sought(argument); name == "" || strings.Contains(name, "/") || inPath(name, env) != "" {
		return nil
	}
	return fmt.Errorf("cannot use command %q: its first line names the interpreter %q, which is not in PATH", file, name)
}

// sought is the command that env looks for, given all that stands behind it in a
// first line as one argument, as the kernel gives it: with -S it takes that
// apart. Empty is that it cannot be said.
func sought(argument string) string {
	words, split := strings.CutPrefix(argument, "-S")
	if !split {
		if strings.HasPrefix(argument, "-") || strings.Contains(argument, "=") {
			return ""
		}
		return argument
	}
	for _, w := range strings.Fields(words) {
		switch {
		case strings.HasPrefix(w, "-") || strings.ContainsAny(w, `"'\$`):
			return "" // its options and quotes are its own affair
		case !strings.Contains(w, "="):
			return w
		}
	}
	return ""
}

// interpreter is the absolute path in the "#!" line of a file and what stands
// behind it; empty if there is none, or if the file can be executed and not read.
func interpreter(file string) (name, argument string) {
	f, err := os.Open(file)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel reads no more
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, found := strings.CutPrefix(line, "#!")
	rest = strings.Trim(rest, " \t")
	name = rest
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		name, argument = rest[:i], strings.Trim(rest[i:], " \t")
	}
	if !found || !filepath.IsAbs(name) || strings.ContainsRune(rest, 0) {
		return "", ""
	}
	return name, argument
}
