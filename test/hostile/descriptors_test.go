package hostile

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
)

const descriptorAnswers = `
		open: 0 1 2
		kind of 0: character device
		seeking in 0 moves the caller's file: no
		kind of 1: pipe
		seeking in 1 moves the caller's file: no
		kind of 2: pipe
		seeking in 2 moves the caller's file: no
		threads: 1
		working directory: /workspace`

var descriptorDenials = []attack{{
	script: "fd_list.c", cases: "A33 B23 A13", layer: byStart,
	says:    "0, 1 and 2 only",
	attempt: "descriptors beyond 0, 1 and 2: directories, sockets, files of the caller",
	source:  "runc TestFdLeaks, CVE-2024-21626, codex #10109",
	answers: descriptorAnswers,
}, {
	script: "fd_pass.c", cases: "A33 A50", layer: byRecorder + "; " + byInit,
	attempt: "descriptors of init and of the supervisor by pidfd and /proc", source: "own",
	answers: `
		descriptor 3: EBADF
		reading from standard output: EBADF
		writing to standard input: EBADF
		standard output as a directory: ENOTDIR
		up from standard output: ENOTDIR
		up from standard input: ENOTDIR
		socket of init: EACCES
		descriptor of init by pidfd: EPERM`,
	recorded: map[string]int64{"pidfd_getfd": 1},
}, {
	script: "fd_links.sh", cases: "A34 B18", layer: byPlan + "; " + byStart, inTest: "TestStartedThroughLinks",
	attempt: "working directory or program by way of /proc/self/fd/N", source: "CVE-2024-21626",
	says: "refused; by a link `ENOTDIR`, `EACCES`", answers: "named: refused",
}}

func TestDescriptors(t *testing.T) { runDenials(t, descriptorDenials) }

// A13, A33, B23: descriptors that the caller holds without close-on-exec, when
// the cell is made and when the program is, are in no sandbox.
func TestLeakedDescriptors(t *testing.T) {
	var conn net.Conn
	before := outside.reached.Load()
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(outside.port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil { // the host has counted and answered
		t.Fatal(err)
	}
	if outside.reached.Load() == before {
		t.Fatal("the host did not count a connection")
	}
	outside.unreached(t)
	leak(t)
	tcp, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	leakFD(t, int(tcp.Fd()), 900)

	l := newLab(t)
	stdin, err := os.OpenFile(write(t, filepath.Join(tempDir(t), "stdin"), "text"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	for _, p := range profiles {
		res := l.run(t, isolate.Policy{Profile: p}, script(t, "fd_list.c"))
		compareAnswers(t, answersOf(descriptorAnswers), answersOf(string(res.Stdout.Kept)))

		c := script(t, "fd_list.c")
		c.Stdin = stdin
		res = l.run(t, isolate.Policy{Profile: p}, c)
		compareAnswers(t, answersOf(strings.Replace(descriptorAnswers, "character device", "pipe", 1)), answersOf(string(res.Stdout.Kept)))
	}
	if at, err := stdin.Seek(0, io.SeekCurrent); err != nil || at > 4 {
		t.Errorf("the caller's file is at %d, %v", at, err)
	}
	// a kept sandbox, the second program of it, and one with a terminal
	s, err := l.Sandbox(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := script(t, "fd_list.c")
	if _, err := s.CopyIn(t.Context(), c.In); err != nil {
		t.Fatal(err)
	}
	c.In = nil
	for range 2 {
		res, err := s.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		compareAnswers(t, answersOf(descriptorAnswers), answersOf(string(res.Stdout.Kept)))
	}
	var out screen
	c.Terminal = &isolate.Terminal{Output: &out}
	if _, err := s.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(descriptorAnswers, ": pipe", ": character device")
	compareAnswers(t, answersOf(want), answersOf(strings.ReplaceAll(out.String(), "\r", "")))
}

// leak opens what an embedder may have open, without close-on-exec.
func leak(t *testing.T) {
	t.Helper()
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := unix.Open(abs(t, "descriptors_test.go"), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{root, file, self, pair[0], pair[1]} {
		for _, least := range []int{3, 60, 500, 1000} {
			leakFD(t, fd, least)
		}
		unix.Close(fd)
	}
}

// leakFD duplicates a descriptor to a free number from least on.
func leakFD(t *testing.T, fd, least int) {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, least)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(dup) })
}

// A34, B18: neither the working directory nor the program may be given by way
// of /proc, whether by name or by a link that an earlier program made.
func TestStartedThroughLinks(t *testing.T) {
	leak(t)
	l := newLab(t)
	for _, c := range []isolate.Cmd{
		{Args: []string{"true"}, Dir: "/proc/self/fd/7"}, {Args: []string{"true"}, Dir: "/proc/self/cwd"},
		{Args: []string{"true"}, Dir: "/dev/fd"}, {Args: []string{"true"}, Dir: "/dev/fd/7"}, {Args: []string{"/dev/fd/3"}}, {Args: []string{"true"}, Dir: "/proc"}, {Args: []string{"true"}, Dir: "/proc/1/root"},
		{Args: []string{"true"}, Dir: "/workspace/../proc/self/fd/3"}, {Args: []string{"true"}, Dir: "/workspace/"},
		{Args: []string{"true"}, Dir: "workspace"}, {Args: []string{"true"}, Dir: "//proc/self/fd/3"},
		{Args: []string{"/proc/self/fd/3"}}, {Args: []string{"/proc/self/exe"}}, {Args: []string{"/proc/self/fd/7/bin/true"}},
		{Args: []string{"/workspace/../proc/self/fd/3"}}, {Args: []string{"//proc//self/exe"}}, {Args: []string{"/./proc/1/exe"}},
	} {
		if res, err := l.Run(t.Context(), isolate.Policy{}, c); !refused(err) {
			t.Errorf("dir %q, program %q: not refused: %+v, %v", c.Dir, c.Args, res, err)
		}
	}
	s, err := l.Sandbox(t.Context(), isolate.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := script(t, "fd_links.sh")
	if _, err := s.CopyIn(t.Context(), c.In); err != nil {
		t.Fatal(err)
	}
	c.In = nil
	if res, err := s.Run(t.Context(), c); err != nil || string(res.Stdout.Kept) != "links: ok\n" {
		t.Fatalf("%+v, %v", res, err)
	}
	links := []string{"exe", "init-exe", "init-cwd", "init-root"}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 64} {
		links = append(links, "fd"+strconv.Itoa(n), "init"+strconv.Itoa(n))
	}
	for _, name := range links {
		at := "/workspace/" + name
		if res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{"/bin/pwd", "-P"}, Dir: at}); err == nil && res.NotStarted == "" {
			t.Errorf("started in %s: %s", at, res.Stdout.Kept)
		}
		if name == "exe" {
			continue // is the far side's own image, which ends at once when it has no supervisor
		}
		for _, program := range []string{at, at + "/bin/true", "../../" + at} {
			if res, err := s.Run(t.Context(), isolate.Cmd{Args: []string{program}}); err == nil && res.NotStarted == "" {
				t.Errorf("started as %s: %+v", program, res)
			}
		}
	}
}

// refused tells whether an error is a refusal that names what to do.
func refused(err error) bool {
	r, ok := err.(*plan.Refusal)
	if !ok || len(r.Problems) == 0 {
		return false
	}
	for _, p := range r.Problems {
		if p.What == "" || p.Remedy == "" {
			return false
		}
	}
	return true
}

// holdOpen runs a program that prints "listening" and waits for the end of its
// input. The returned function lets it end and waits for that.
func holdOpen(t *testing.T, s *isolate.Sandbox, c isolate.Cmd) func() {
	t.Helper()
	in, letGo := io.Pipe()
	out, printed := io.Pipe()
	c.Stdin, c.Stdout = in, printed
	end := make(chan struct{})
	go func() {
		defer close(end)
		res, err := s.Run(t.Context(), c)
		printed.Close()
		if err != nil || res.ExitCode != 0 {
			t.Errorf("%q: %+v, %v: %s", c.Args, res, err, res.Stderr.Kept)
		}
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "listening" {
	}
	go io.Copy(io.Discard, out)
	return func() {
		letGo.Close()
		<-end
	}
}
