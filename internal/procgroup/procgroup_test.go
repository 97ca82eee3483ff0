package procgroup

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "die-with-child" {
		dieWithChild(os.Args[2])
	}
	goleak.VerifyTestMain(m)
}

// start runs a shell script and returns what it prints.
func start(t *testing.T, script string) (*Group, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	g, err := Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir(), Env: []string{"A=1"}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Kill)
	return g, r
}

func read(t *testing.T, r *os.File) string {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// gone waits until no process of that id lives.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 6000 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

func TestRunsAlone(t *testing.T) {
	g, r := start(t, `env | grep -v -e PWD -e SHLVL -e '^_='; ps -o pid=,pgid=,sid=,tty= -p $$`)
	out := strings.Fields(read(t, r))
	if state, err := g.Wait(); err != nil || !state.Success() {
		t.Fatalf("ended with %v, %v", state, err)
	}
	pid := strconv.Itoa(g.pid)
	want := []string{"A=1", pid, pid, pid, "?"}
	if strings.Join(out, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", out, want)
	}
}

// Grandchildren in the group end with it: by Kill, and when the leader ends.
func TestGroupEndsAsAWhole(t *testing.T) {
	for name, script := range map[string]string{
		"kill":   `sh -c 'trap "" TERM INT HUP; sleep 1000 & echo $!; wait' & echo $!; echo; wait`,
		"leader": `sh -c 'trap "" TERM INT HUP; sleep 1000 & echo $!; >ran; wait' & echo $!; until [ -e ran ]; do sleep 0.05; done`,
	} {
		t.Run(name, func(t *testing.T) {
			g, r := start(t, script)
			var pids []int
			buf := make([]byte, 1)
			line := ""
			for len(pids) < 2 {
				_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
				if _, err := r.Read(buf); err != nil {
					t.Fatal(err)
				}
				if line += string(buf); buf[0] == '\n' {
					if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
						pids = append(pids, pid)
					}
					line = ""
				}
			}
			if name == "kill" {
				g.Kill()
			}
			if _, err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				gone(t, pid)
			}
			g.Kill() // is allowed after the end
		})
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(Command{Path: "/no/such", Dir: "/"}); err == nil || !strings.Contains(err.Error(), `cannot start "/no/such"`) {
		t.Errorf("error %v", err)
	}
}

// dieWithChild starts a command, writes its id to a file and is killed.
func dieWithChild(file string) {
	g, err := Start(Command{Path: "/bin/sleep", Args: []string{"1000"}, Dir: "/"})
	if err == nil {
		err = os.WriteFile(file, []byte(strconv.Itoa(g.pid)), 0o600)
	}
	if err != nil {
		os.Exit(1)
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
}

func TestDiesWithTheHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Start(Command{Path: self, Args: []string{"die-with-child", file}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := g.Wait(); err != nil || state.Success() {
		t.Fatalf("ended with %v, %v", state, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(string(b))
	gone(t, pid)
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, env, want, err string }{
		{"./run", "", dir + "/run", ""},
		{dir + "/run", "", dir + "/run", ""},
		{"run", "PATH=/nowhere:" + dir, dir + "/run", ""},
		{"run", "PATH=:.", "", "write a path with a slash"},
		{"data", "PATH=" + dir, "", "cannot find"},
		{"./data", "", "", "chmod +x"},
		{"./", "", "", "no regular file"},
		{"./absent", "", "", "no such file"},
		{"", "", "", "without a name"},
	} {
		got, err := Find(c.name, dir, []string{c.env})
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("Find(%q, %q) = %q, %v", c.name, c.env, got, err)
		}
	}
	got := BaseEnv([]string{"PATH=/bin", "SECRET=x", "HOME=/h", "LANG=C", "PATHX=1"})
	if strings.Join(got, " ") != "PATH=/bin HOME=/h LANG=C" {
		t.Errorf("BaseEnv gave %q", got)
	}
}
