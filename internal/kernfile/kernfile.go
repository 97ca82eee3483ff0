// Package kernfile reads, lists and writes the small files that the kernel makes
// up: those of proc and of cgroups. It does so with the system calls that this
// takes and no others: package os also asks for the size of each file and
// offers it to the run time's poller, which is half of what the ten or so that
// a sandbox needs would cost. It does not follow who may write to a path: it is
// for trees that are the kernel's own. It needs nothing of the kernel that Go
// does not.
package kernfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// usual is more than most of these files have, in bytes.
const usual = 4096

// Read reads a file to its end. Its errors are those of os.ReadFile.
func Read(path string) ([]byte, error) { return read(unix.AT_FDCWD, path, make([]byte, usual)) }

// Dir is an open directory. What is looked up in it costs no walk from the
// root, and of proc it is of one process even when that is gone and another one
// has its number.
type Dir struct{ fd int }

// OpenDir opens a directory; who does closes it.
func OpenDir(path string) (Dir, error) {
	fd, err := open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY)
	return Dir{fd}, err
}

// Close lets go of the directory.
func (d Dir) Close() { unix.Close(d.fd) }

// Read reads a file of the directory to its end, into buf if that is large
// enough.
func (d Dir) Read(path string, buf []byte) ([]byte, error) { return read(d.fd, path, buf) }

// Link reads what a symbolic link of the directory says.
func (d Dir) Link(path string) (string, error) {
	var buf [128]byte // those of namespaces have some 20 bytes
	n, err := again(func() (int, error) { return unix.Readlinkat(d.fd, path, buf[:]) })
	if err == nil && n == len(buf) {
		err = unix.ENAMETOOLONG
	}
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: path, Err: err}
	}
	return string(buf[:n]), nil
}

// List lists the names in a directory below this one, in the kernel's order.
func (d Dir) List(path string) ([]string, error) {
	fd, err := open(d.fd, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var buf [usual]byte
	var names []string
	for {
		n, err := again(func() (int, error) { return unix.ReadDirent(fd, buf[:]) })
		if err != nil {
			return nil, &os.PathError{Op: "list", Path: path, Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// read reads a file into buf, or into something larger that begins with it.
func read(dir int, path string, buf []byte) ([]byte, error) {
	fd, err := open(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := buf[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := again(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		b = b[:len(b)+n]
	}
}

// File is an open file that is read again and again.
type File struct {
	fd   int
	path string
}

// Open opens a file with a mode of open(2); who does closes it.
func Open(path string, mode int) (*File, error) {
	fd, err := open(unix.AT_FDCWD, path, mode)
	if err != nil {
		return nil, err
	}
	return &File{fd, path}, nil
}

// Read reads what the file says now into buf, which must have room for more,
// with one call: asked whether there is more, the kernel would make all of it up
// anew.
func (f *File) Read(buf []byte) ([]byte, error) {
	n, err := again(func() (int, error) { return unix.Pread(f.fd, buf, 0) })
	if err == nil && n == len(buf) {
		err = unix.EFBIG
	}
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: f.path, Err: err}
	}
	return buf[:n], nil
}

// Write is Write for a file that is open.
func (f *File) Write(text string) error { return write(f.fd, f.path, text) }

// Close lets go of the file; nil is none.
func (f *File) Close() {
	if f != nil {
		unix.Close(f.fd)
	}
}

// Write writes text to a file, which must be there, with one system call, as
// settings want it.
func Write(path, text string) error {
	fd, err := open(unix.AT_FDCWD, path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return write(fd, path, text)
}

func write(fd int, path, text string) error {
	n, err := again(func() (int, error) { return unix.Pwrite(fd, []byte(text), 0) })
	if err == nil && n < len(text) {
		err = unix.EIO
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func open(dir int, path string, mode int) (int, error) {
	fd, err := again(func() (int, error) { return unix.Openat(dir, path, mode|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// again makes a call anew that a signal interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
