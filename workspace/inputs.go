package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// CheckInputs says everything that is wrong with inputs before anything is
// copied: sources that are missing, unreadable or neither file nor directory,
// targets that are not below the workspace, and targets that exclude each
// other. It opens each source and changes nothing. None is nil.
//
// What lies below a source directory is not looked at.
func CheckInputs(in []Input) []Problem {
	var all []Problem
	taken := targets{files: map[string]bool{}, dirs: map[string]bool{}}
	for _, i := range in {
		s, p := openSource(i)
		if p != nil {
			all = append(all, *p)
			// The target can still be wrong on its own.
			if i.Target != "" {
				all = appendProblem(all, checkTarget(i, i.Target))
			}
			continue
		}
		s.file.Close()
		target := i.target(s.dir)
		if target == "" {
			continue // the workspace itself
		}
		if p := checkTarget(i, target); p != nil {
			all = append(all, *p)
			continue
		}
		all = appendProblem(all, taken.add(i, target, s))
	}
	return all
}

func appendProblem(all []Problem, p *Problem) []Problem {
	if p == nil {
		return all
	}
	return append(all, *p)
}

// target is where an input goes, "" for the workspace itself.
func (i Input) target(dir bool) string {
	if i.Target != "" || dir {
		return i.Target
	}
	return filepath.Base(i.Source)
}

func (i Input) what() string { return fmt.Sprintf("cannot copy %q into the workspace", i.Source) }

func (i Input) whatAs(target string) string {
	return i.what() + " as " + dirfd.Shown(target)
}

// source is an open input.
type source struct {
	file *os.File
	st   unix.Stat_t
	dir  bool
}

// openSource opens what the user named, through links as everywhere on the
// host. A FIFO or device is not opened: that alone can do something.
func openSource(i Input) (source, *Problem) {
	p := &Problem{What: i.what(), Remedy: "give a file or directory that you can read"}
	if i.Source == "" {
		p.Rule = "the source is empty"
		return source{}, p
	}
	var st unix.Stat_t
	if err := unix.Stat(i.Source, &st); err != nil {
		p.Rule = sourceFault(i.Source, err)
		return source{}, p
	}
	if kind := dirfd.KindOf(st.Mode); kind != dirfd.File && kind != dirfd.Directory {
		p.Rule = "it is a " + kind.String()
		p.Remedy = "write what it gives to a file first, or let the program read it from standard input"
		return source{}, p
	}
	fd, err := unix.Open(i.Source, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		p.Rule = sourceFault(i.Source, err)
		return source{}, p
	}
	s := source{file: os.NewFile(uintptr(fd), i.Source)}
	s.st, err = dirfd.Stat(s.file)
	kind := dirfd.KindOf(s.st.Mode)
	if err != nil || kind != dirfd.File && kind != dirfd.Directory {
		s.file.Close()
		p.Rule = "it became something else while it was opened"
		return source{}, p
	}
	s.dir = kind == dirfd.Directory
	return s, nil
}

func sourceFault(name string, err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil {
			return "it is a symbolic link to nothing"
		}
		return "it does not exist"
	case errors.Is(err, unix.EACCES):
		return "it may not be read"
	}
	return cause(err)
}

func checkTarget(i Input, target string) *Problem {
	p := &Problem{What: i.whatAs(target), Remedy: `give a path below /workspace, such as "data/x.csv"`}
	if why := nameFault(dirfd.CheckRel(target)); why != "" {
		p.Rule = "the target " + why
		better := strings.Trim(strings.TrimPrefix(target, "/workspace/"), "/")
		if better != target && dirfd.CheckRel(better) == nil {
			p.Remedy = fmt.Sprintf("targets are below /workspace: give %q", better)
		} else if i.Target == "" {
			p.Remedy = "give it a target"
		}
		return p
	}
	if first, _, _ := strings.Cut(target, "/"); first == bridgeDir {
		p.Rule = "/workspace/" + bridgeDir + " belongs to the bridge"
		return p
	}
	return nil
}

// targets are the places that inputs have taken. Directories may be shared and
// merged; a file excludes whatever else wants its place.
type targets struct{ files, dirs map[string]bool }

func (t targets) add(i Input, target string, s source) *Problem {
	clash := t.files[target] || !s.dir && t.dirs[target]
	for up := path.Dir(target); up != "."; up = path.Dir(up) {
		clash = clash || t.files[up]
	}
	if clash {
		return &Problem{
			What: i.whatAs(target), Rule: "another input has that place, or a file where this one needs a directory",
			Remedy: "give one of them another target",
		}
	}
	if s.dir {
		t.dirs[target] = true
	} else {
		t.files[target] = true
	}
	for up := path.Dir(target); up != "."; up = path.Dir(up) {
		t.dirs[up] = true
	}
	return nil
}
