package bridge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// workspaceDir is where the program finds Handles.Workspace.
const workspaceDir = "/workspace"

// maxExt bounds the extension that a file takes over from a suggested name.
const maxExt = 8

// workspaceFiles makes files in a directory that a program may be changing.
type workspaceFiles struct {
	dir   *os.File
	owner dirfd.Owner
}

// NewFiles makes files in the directory of a handle of /workspace, for the
// owner of its files. A nil handle gives Files that refuse.
func NewFiles(workspace *os.File, owner dirfd.Owner) Files {
	return workspaceFiles{workspace, owner}
}

// Put writes a new file "tool-" and random letters. See Files.
func (w workspaceFiles) Put(ctx context.Context, name, mediaType string, content io.Reader) (FileRef, error) {
	if w.dir == nil {
		return FileRef{}, fault(CodeNoSpace)
	}
	file := "tool-" + strings.ToLower(rand.Text()) + extension(name)
	ref := FileRef{Path: path.Join(workspaceDir, file), MediaType: cut(mediaType, shownMax)}
	var f *os.File
	err := w.owner.Do(func() (err error) {
		f, err = dirfd.CreateBeneath(w.dir, file, 0o644)
		return err
	})
	if err == nil {
		ref.Size, ref.SHA256, err = pour(ctx, f, content)
		err = errors.Join(err, f.Close())
		if err != nil {
			// Half a file is of no use; the error at hand matters more.
			_ = dirfd.Remove(w.dir, file)
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return FileRef{}, fault(CodeNoSpace)
	}
	if err != nil {
		return FileRef{}, err
	}
	return ref, nil
}

// pour copies content to f until it ends or ctx does.
func pour(ctx context.Context, f *os.File, content io.Reader) (size int64, digest string, err error) {
	sum := sha256.New()
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		n, err := content.Read(buf)
		if n > 0 {
			sum.Write(buf[:n])
			size += int64(n)
			if _, err := f.Write(buf[:n]); err != nil {
				return 0, "", err
			}
		}
		if err == io.EOF {
			return size, hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err != nil {
			return 0, "", err
		}
	}
}

// extension is the extension of name if it is a dot and up to maxExt letters
// and digits, else empty.
func extension(name string) string {
	ext := path.Ext(name)
	if len(ext) < 2 || len(ext) > maxExt+1 {
		return ""
	}
	for _, c := range ext[1:] {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return ""
		}
	}
	return ext
}

// countedFiles is the Files of a call: what it writes counts against the
// total of the results.
type countedFiles struct {
	b     *Broker
	files Files
}

func (c countedFiles) Put(ctx context.Context, name, mediaType string, content io.Reader) (FileRef, error) {
	if c.files == nil {
		return FileRef{}, fault(CodeNoSpace)
	}
	return c.files.Put(ctx, name, mediaType, countedReader{c.b, content})
}

type countedReader struct {
	b    *Broker
	from io.Reader
}

func (c countedReader) Read(buf []byte) (int, error) {
	n, err := c.from.Read(buf)
	if !c.b.take(int64(n)) {
		return 0, fault(CodeTotalBytes, c.b.options.TotalResponseBytes, "results")
	}
	return n, err
}
