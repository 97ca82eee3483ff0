package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience bounds every command of a probe. The slowest machine the tests run
// on, an emulated one, needs two seconds for the slowest of them.
const patience = 30 * time.Second

func root() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("the user is %d", uid)
	}
	return nil
}

func unprivileged() error {
	if os.Geteuid() == 0 {
		return errors.New("the user is root")
	}
	return nil
}

// userNS mounts, because some kernels make the namespace and then grant
// nothing inside it. The mount is gone with the namespace.
func userNS() error {
	return inUserNS(`mount -t tmpfs tmpfs "$1"`)
}

func overlayUserNS() error {
	return inUserNS(`mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir lower upper work merged &&
		mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged &&
		echo x > merged/file`)
}

// inUserNS runs a shell script as root of new user and mount namespaces; $1 is
// a directory it may mount on.
func inUserNS(script string) error {
	return run(func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}, "sh", "-c", script, "sh", os.TempDir())
}

func systemdUser() error {
	return try("systemctl", "--user", "show", "--property=Version")
}

func gcc() error {
	dir, err := os.MkdirTemp("", "isolate-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return run(func(c *exec.Cmd) {
		c.Stdin = strings.NewReader("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")
	}, "gcc", "-x", "c", "-o", filepath.Join(dir, "program"), "-")
}

func bwrap() error {
	return try("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
}

// subUID maps the first id of the caller's range into the namespace of a
// process that waits for its standard input to end.
func subUID() error {
	first, err := firstSubID("/etc/subuid")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	waiting := exec.CommandContext(ctx, "cat")
	waiting.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	stdin, err := waiting.StdinPipe()
	if err != nil {
		return err
	}
	if err := waiting.Start(); err != nil {
		return fmt.Errorf("cannot start a process in a user namespace: %w", err)
	}
	defer func() {
		stdin.Close()
		waiting.Wait()
	}()
	return try("newuidmap", strconv.Itoa(waiting.Process.Pid),
		"0", strconv.Itoa(os.Getuid()), "1", "1", strconv.Itoa(first), "1")
}

// firstSubID reads the start of the caller's first range.
func firstSubID(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	uid := strconv.Itoa(os.Getuid())
	name := uid
	if u, err := user.LookupId(uid); err == nil {
		name = u.Username
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		part := strings.Split(lines.Text(), ":")
		if len(part) == 3 && (part[0] == name || part[0] == uid) {
			return strconv.Atoi(part[1])
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("%s has no range for user %s", path, name)
}

func ipv6Loopback() error {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.DialTimeout("tcp6", l.Addr().String(), patience)
	if err != nil {
		return err
	}
	return c.Close()
}

// try runs a command that must succeed.
func try(name string, args ...string) error {
	return run(func(*exec.Cmd) {}, name, args...)
}

// run is try with a chance to set the command up. The error holds the last
// line the command wrote: what it says of the cause.
func run(prepare func(*exec.Cmd), name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second
	prepare(c)
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("cannot run %s: %w: %s", name, err, last)
	}
	return fmt.Errorf("cannot run %s: %w", name, err)
}

func netBed() error {
	dir := os.Getenv("ISOLATE_NETBED")
	if dir == "" {
		return fmt.Errorf("not run through test/net/bed")
	}
	_, err := os.Stat(filepath.Join(dir, "ready"))
	return err
}

// inVM looks for the test disk of test/vm, which nothing else has.
func inVM() error {
	_, err := os.Stat("/run/vmtest/env")
	return err
}
