package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
)

// metaSchema is the version of what --meta writes. A field may be added
// within a version; a field that changes or goes makes a new one. The fields
// are described in docs/meta.md.
const metaSchema = 1

// metaHead begins every document.
type metaHead struct {
	Schema int `json:"schema"`
	// CommandExitCode is what the command exits with.
	CommandExitCode int `json:"command_exit_code"`
	// Via says how the command was carried out: "cold" or "server".
	Via via `json:"via"`
	// Problems says why nothing ran, or what went wrong beside the program.
	Problems []plan.Problem `json:"problems,omitempty"`
}

// metaResult is the document of a run of which there is a result.
type metaResult struct {
	metaHead
	isolate.Result
	// Answer is the program's result, nil but for the run command.
	Answer       *string            `json:"result,omitempty"`
	AnswerFrom   isolate.AnswerFrom `json:"result_from,omitempty"`
	RepairPrompt string             `json:"repair_prompt,omitempty"`
}

// metaRefusal is the document when there is none.
type metaRefusal struct {
	metaHead
	Reason isolate.Reason `json:"reason"`
}

// metaDocument builds the document for an outcome.
func metaDocument(o outcome) any {
	head := metaHead{Schema: metaSchema, CommandExitCode: o.code, Via: o.via, Problems: o.problems}
	if o.result == nil {
		return metaRefusal{metaHead: head, Reason: o.reason}
	}
	r := *o.result
	if r.Weakenings == nil {
		r.Weakenings = []policy.Weakening{} // "none", which is a list, not null
	}
	m := metaResult{metaHead: head, Result: r, RepairPrompt: o.repair}
	if r.Answer != nil {
		m.Answer, m.AnswerFrom = &r.Answer.Text, r.Answer.From
	}
	return m
}

// metaTarget is where --meta writes: a descriptor that was passed in, a file,
// or nowhere for the zero value.
type metaTarget struct {
	file string // absolute
	fd   file
}

// file is what the document is written to.
type file = io.WriteCloser

// via is how a command was carried out: by this process, or by a server that
// was there already.
type via string

const (
	viaCold   via = "cold"
	viaServer via = "server"
)

// readMetaTarget reads the value of --meta. Digits are a descriptor.
func (a *app) readMetaTarget(text string) (metaTarget, []plan.Problem) {
	if text == "" || text == "-" {
		return metaTarget{}, []plan.Problem{metaNowhere(text)}
	}
	if n, err := strconv.Atoi(text); err == nil && n < 0 {
		return metaTarget{}, []plan.Problem{metaNowhere(text)}
	} else if err == nil {
		open := a.descriptor
		if open == nil {
			open = passedDescriptor
		}
		f, why := open(n)
		if why != "" {
			return metaTarget{}, []plan.Problem{metaDescriptor(text, why)}
		}
		return metaTarget{fd: f}, nil
	}
	file, err := a.abs(text)
	if err == nil {
		err = replaceable(file)
	}
	if err != nil {
		return metaTarget{}, []plan.Problem{metaFile(text, err)}
	}
	return metaTarget{file: file}, nil
}

// passedDescriptor is descriptor n of this process, or why it cannot take the
// document. A descriptor that the caller passed has no close-on-exec flag,
// for else it would not have arrived, while all that this process opened for
// itself have one. It gets the flag here: nothing started from now on is to
// inherit it.
func passedDescriptor(n int) (file, string) {
	if n <= 2 {
		return nil, descriptorIsStream
	}
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, descriptorNotOpen
	}
	if !writable(n) {
		return nil, descriptorReadOnly
	}
	unix.CloseOnExec(n)
	return lateFile(n), ""
}

// lateFile is a descriptor that is nobody's until something is written to it:
// a file object would close it when the collector finds it.
type lateFile int

func (n lateFile) Write(p []byte) (int, error) {
	for done := 0; ; {
		k, err := unix.Write(int(n), p[done:])
		done += max(k, 0)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(n), Events: unix.POLLOUT}}, -1)
		case err != nil || done == len(p):
			return done, err
		}
	}
}

func (n lateFile) Close() error { return unix.Close(int(n)) }

// writable says whether a descriptor is open for writing.
func writable(fd int) bool {
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE != unix.O_RDONLY
}

// replaceable says whether a file can be put at path by renaming.
func replaceable(path string) error {
	switch st, err := os.Stat(path); {
	case err == nil && !st.Mode().IsRegular():
		return errNotAFile
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return errors.Unwrap(err)
	}
	if err := unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("its directory cannot be used: %w", err)
	}
	return notRecorded(path)
}

// notRecorded refuses a path at which an audit log or its key is kept: nothing
// that isolate writes may take the place of one.
func notRecorded(path string) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return cause(err)
	}
	for rest := filepath.Base(path); ; {
		first, _, _ := strings.Cut(rest, "/")
		if audit.Keeps(first) && (there(filepath.Join(parent, hostLogFile)) || first == hostKeyFile && there(filepath.Join(parent, first))) {
			return fmt.Errorf("%w in %q", errRecorded, parent)
		}
		if parent == "/" {
			return nil
		}
		rest, parent = filepath.Base(parent)+"/"+rest, filepath.Dir(parent)
	}
}

var errRecorded = errors.New("it belongs to the audit log")

// needs says what of the command a file is that is to be written, by whatever
// name or link; empty if it is nothing that the command reads. What is written
// takes the place of what was there, and that is removed before the run.
func (r *reader) needs(file string) string {
	if file == "" {
		return ""
	}
	read := map[string]string{r.request.cmd.File: "the program"}
	for _, flag := range []string{"policy", "tools"} {
		for _, text := range r.flags.many(flag) {
			read[text] = "the file of --" + flag
		}
	}
	for text, what := range read {
		if path, err := r.abs(text); text != "" && err == nil && isSame(file, path) {
			return what
		}
	}
	for _, text := range r.flags.many("in") {
		if in, err := r.readInput(text); err == nil && isSame(file, in.Source) {
			return "a source of --in"
		}
	}
	if in, ok := r.stdin.(interface{ Stat() (fs.FileInfo, error) }); ok {
		have, err := in.Stat()
		if st, no := os.Stat(file); err == nil && no == nil && os.SameFile(have, st) {
			return "the standard input"
		}
	}
	return ""
}

// isSame says whether two paths name one file: one that is there, or one to be.
func isSame(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return a == b
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// clear removes the document of an earlier run, so that it cannot be taken
// for this one's if isolate is killed.
func (m metaTarget) clear() error {
	if m.file == "" {
		return nil
	}
	if err := os.Remove(m.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write writes the document of an outcome. A file appears whole or not at all.
func (m metaTarget) write(o outcome) error {
	if m == (metaTarget{}) {
		return nil
	}
	text, err := json.MarshalIndent(metaDocument(o), "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if m.file == "" {
		return writeAndClose(m.fd, text)
	}
	return writeWhole(m.file, text)
}

func writeAndClose(f io.WriteCloser, text []byte) error {
	_, err := f.Write(text)
	return errors.Join(err, f.Close())
}

// writeWhole writes a file beside path and renames it there.
func writeWhole(path string, text []byte) error {
	if err := notRecorded(path); err != nil { // the log may have been made by this run
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = f.Chmod(metaMode)
	if err == nil {
		err = writeAndClose(f, text)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// metaMode keeps what a program did from other users of the machine.
const metaMode = 0o600
