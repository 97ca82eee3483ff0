package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Path is the PATH of programs in peers.
const Path = "/usr/local/bin:/usr/bin:/bin"

// View is what of the host's files peers show: what isolate shows too, by and
// large.
type View struct {
	// Show are absolute paths of files and directories, read-only.
	Show []string
	// Links are symbolic links in the root.
	Links []Link
}

// Link is a symbolic link.
type Link struct{ Name, To string }

// HostView looks at the host: /usr, what of it has names in the root, and the
// files of /etc without which programs of /usr do not start.
func HostView() (View, error) {
	v := View{Show: []string{"/usr"}}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64"} {
		to, err := os.Readlink("/" + name)
		if err == nil {
			v.Links = append(v.Links, Link{name, to})
			continue
		}
		if _, err := os.Lstat("/" + name); err == nil {
			v.Show = append(v.Show, "/"+name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return View{}, fmt.Errorf("cannot look at the host's files: %w", err)
		}
	}
	for _, name := range []string{"/etc/alternatives", "/etc/ld.so.cache"} {
		if _, err := os.Stat(name); err == nil {
			v.Show = append(v.Show, name)
		}
	}
	return v, nil
}

// tree makes the root of those that want a directory: places to mount what is
// shown, and the links. It is the same for all programs.
func tree(g Ground, _ string, _ []string) error {
	root := g.tree()
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run", "var", "etc", "home", "root", workdir} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, name := range g.View.Show {
		if err := place(name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, l := range g.View.Links {
		if err := os.Symlink(l.To, filepath.Join(root, l.Name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// place makes an empty file or directory to mount one of the host's on.
func place(of, at string) error {
	info, err := os.Stat(of)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
