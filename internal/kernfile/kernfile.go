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
func Read(path string) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 0, usual)
	for {
		n, err := again(func() (int, error) { return unix.Read(fd, b[len(b):cap(b)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return b, nil
		}
		if b = b[:len(b)+n]; len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

// List lists the names in a directory, in the kernel's order.
func List(path string) ([]string, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, usual)
	var names []string
	for {
		n, err := again(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil {
			return nil, &os.PathError{Op: "list", Path: path, Err: err}
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// Write writes text to a file, which must be there, with one system call, as
// settings want it.
func Write(path, text string) error {
	fd, err := open(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := again(func() (int, error) { return unix.Write(fd, []byte(text)) })
	if err == nil && n < len(text) {
		err = unix.EIO
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func open(path string, mode int) (int, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, mode|unix.O_CLOEXEC, 0) })
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
