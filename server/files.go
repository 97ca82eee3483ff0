package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/workspace"
)

// listMax is how many entries of a directory are listed.
const listMax = 10000

// fileError gives an error of a path in a sandbox its status.
func fileError(path string, err error) error {
	what := fmt.Sprintf("cannot use %q: %v", path, err)
	status, remedy := http.StatusUnprocessableEntity, "give the path of a file below /workspace, without links in it; a directory is copied with POST …/in and POST …/out: isolate sandbox put or get SANDBOX PATH, and then the directory of the host"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what, status = fmt.Sprintf("cannot find %q: there is no such file or directory", path), http.StatusNotFound
		remedy = "see what there is: isolate sandbox ls, or over HTTP GET …/list/"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		what, status = err.Error(), http.StatusInsufficientStorage // it has the path
		remedy = "remove something in it, or make the sandbox with a policy that has a larger disk, or more inodes"
	}
	return failed(status, what, remedy)
}

func (s *Server) listFiles(w http.ResponseWriter, r *http.Request) error {
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	list, more, err := k.sandbox.ListFiles(r.PathValue("path"), listMax)
	if err != nil {
		return fileError(r.PathValue("path"), err)
	}
	out := client.FileList{Files: make([]client.File, len(list)), More: more}
	for i, e := range list {
		out.Files[i] = client.File(e)
	}
	return answer(w, http.StatusOK, out)
}

// getFile gives a file, or the ranges that are asked for.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request) error {
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	f, err := k.sandbox.OpenFile(r.PathValue("path"))
	if err != nil {
		return fileError(r.PathValue("path"), err)
	}
	defer f.Close()
	// what it is, only the program knows: nobody is to guess, and no browser to show it
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	answer := &ranged{ResponseWriter: w}
	http.ServeContent(answer, r, "", time.Time{}, f)
	if answer.refused {
		return failed(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("cannot give range %q of file %q: it is not within the file", r.Header.Get("Range"), r.PathValue("path")), "Content-Range says how long the file is; without a Range all of it comes")
	}
	return nil
}

// ranged keeps back the library's own words for a range that is not there.
type ranged struct {
	http.ResponseWriter
	refused bool
}

func (a *ranged) WriteHeader(status int) {
	if a.refused = status == http.StatusRequestedRangeNotSatisfiable; !a.refused {
		a.ResponseWriter.WriteHeader(status)
	}
}

func (a *ranged) Write(b []byte) (int, error) {
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// ReadFrom lets a file go to the connection without being copied here.
func (a *ranged) ReadFrom(from io.Reader) (int64, error) { return io.Copy(a.ResponseWriter, from) }

// putFile writes a file; ?mode= are its permission bits in octal, 644 if none
// are given.
func (s *Server) putFile(w http.ResponseWriter, r *http.Request) error {
	mode := uint64(0o644)
	if text := r.URL.Query().Get("mode"); text != "" {
		var err error
		if mode, err = strconv.ParseUint(text, 8, 32); err != nil || mode > 0o777 {
			return failed(http.StatusBadRequest, fmt.Sprintf("cannot use mode %q: it is no permission bits in octal", text), "write 644, or 755 for a program")
		}
	}
	k, err := s.kept.use(r.PathValue("id"))
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	e, err := k.sandbox.PutFile(r.Context(), r.PathValue("path"), uint32(mode), r.Body)
	if !s.kept.has(k) { // what was written is nowhere
		return errNoSandbox(k.id)
	}
	if err != nil {
		return fileError(r.PathValue("path"), err)
	}
	return answer(w, http.StatusOK, client.Written{Path: e.Path, Size: e.Size, Mode: e.Mode, SHA256: e.SHA256})
}

// inputs are those of a request.
func inputs(list []client.Input) (in []isolate.Input) {
	for _, i := range list {
		in = append(in, isolate.Input(i))
	}
	return in
}

// copying finds the sandbox of a request that copies files of the host; release
// must follow. Who sees other files by the same paths is refused.
func (s *Server) copying(r *http.Request) (*kept, error) {
	if who, is := r.Context().Value(peerKey{}).(peer); is {
		if why := s.self.elsewhere(who); why != "" {
			return nil, failed(http.StatusUnprocessableEntity, "cannot copy files for this process: "+why+", so that a path means another file to the server", "start isolate serve where the files are, or send them one by one: PUT and GET …/files/PATH")
		}
	}
	return s.kept.use(r.PathValue("id"))
}

// copyIn copies files and directories of the host into a sandbox, and answers
// with the manifest.
func (s *Server) copyIn(w http.ResponseWriter, r *http.Request) error {
	var q client.CopyIn
	if err := decode(r, &q); err != nil {
		return err
	}
	if len(q.In) == 0 {
		return failed(http.StatusBadRequest, "cannot copy: no file is named", "name files and directories of the host in in")
	}
	if err := hostPaths(q.In, ""); err != nil {
		return err
	}
	k, err := s.copying(r)
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	m, err := k.sandbox.CopyIn(r.Context(), inputs(q.In))
	if !s.kept.has(k) {
		return errNoSandbox(k.id)
	}
	if errors.Is(err, workspace.ErrLimit) {
		return failed(http.StatusInsufficientStorage, err.Error(), "")
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, m)
}

// copyOut copies a directory of a sandbox to the host, and answers with the
// manifest.
func (s *Server) copyOut(w http.ResponseWriter, r *http.Request) error {
	var q client.CopyOut
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Out == "" {
		return failed(http.StatusBadRequest, "cannot copy: no directory is named that the files go to", "name one in out")
	}
	if err := hostPaths(nil, q.Out); err != nil {
		return err
	}
	k, err := s.copying(r)
	if err != nil {
		return err
	}
	defer s.kept.release(k)
	m, err := k.sandbox.CopyOutOf(r.Context(), q.Path, q.Out)
	var source *workspace.SourceError
	switch {
	case errors.As(err, &source) && errors.Is(err, unix.ENOTDIR):
		return failed(http.StatusUnprocessableEntity, fmt.Sprintf("cannot copy %q: it is no directory", q.Path), "get a file with GET …/files/PATH: isolate sandbox get SANDBOX FILE >FILE; links are not followed")
	case errors.As(err, &source):
		return fileError(q.Path, source.Err)
	case err != nil:
		return err
	}
	return answer(w, http.StatusOK, m)
}
