package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

var update = flag.Bool("update", false, "write the expected texts in the scripts anew")

// TestMain lets the test binary be the isolate command in the scripts, also
// where that starts itself again to build a cell.
func TestMain(m *testing.M) {
	isolate.Init()
	testscript.Main(m, map[string]func(){"isolate": main, "mcpclient": mcpClient})
}

// TestScripts runs what needs no sandbox: words, refusals, forms.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script", noServer) }

// TestSandboxScripts runs programs in sandboxes.
func TestSandboxScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	runScripts(t, "testdata/sandbox", noServer)
}

// TestToolScripts runs programs that call tools.
func TestToolScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	runScripts(t, "testdata/tools", noServer)
}

// TestNodeScripts runs JavaScript programs in sandboxes.
func TestNodeScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Tool("node"))
	runScripts(t, "testdata/node", noServer)
}

// TestNPMScripts gives programs the tools of real MCP servers.
func TestNPMScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3, testenv.Tool("node"))
	modules := os.Getenv("ISOLATE_TEST_NPM")
	if modules == "" {
		t.Skip("needs npm servers: ISOLATE_TEST_NPM names no node_modules directory")
	}
	runScripts(t, "testdata/npm", func(env *testscript.Env) error {
		env.Setenv("NPM", modules)
		return nil
	})
}

// TestServedScripts runs the same scripts where a server is running, which
// must make no difference, and those that are about the server.
func TestServedScripts(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Python3)
	runScripts(t, "testdata/sandbox", startServer)
	runScripts(t, "testdata/tools", startServer)
	runScripts(t, "testdata/served", startServer)
}

func noServer(*testscript.Env) error { return nil }

// startServer starts a server for one script, and ends it after it.
func startServer(env *testscript.Env) error {
	var log bytes.Buffer
	cmd := &exec.Cmd{Path: filepath.Join(filepath.SplitList(env.Getenv("PATH"))[0], "isolate"), Args: []string{"isolate", "serve"}, Env: env.Vars, Dir: env.WorkDir, Stderr: &log}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	env.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, err := os.Stat(filepath.Join(env.WorkDir, "kill.py"))
		kills := err == nil // the script ends the server in its own way
		if err := cmd.Wait(); err != nil && !kills {
			env.T().Log(fmt.Sprintf("server: %v\n%s", err, log.String()))
			env.T().FailNow()
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "serving on ") {
		return fmt.Errorf("the server says %q, %v, %s", line, err, log.String())
	}
	env.Setenv("SERVER", strconv.Itoa(cmd.Process.Pid))
	return nil
}

func runScripts(t *testing.T, dir string, prepare func(*testscript.Env) error) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Sockets are made there, and their paths have little room.
			run, err := os.MkdirTemp("", "isolate-script-")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(run) })
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TERM", "xterm")
			// root's run-time directory does not depend on XDG_RUNTIME_DIR
			env.Setenv("ISOLATE_SOCKET", filepath.Join(run, "serve.sock"))
			return errors.Join(examples(env), prepare(env))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   code,
			"empty":  empty,
			"listen": listen, "connections": connections,
		},
	})
}

// code N PROGRAM ARGUMENTS runs a program that must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [argument ...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || errors.Is(err, context.DeadlineExceeded) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// empty DIR checks that a directory has nothing in it, or does not exist.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty directory")
	}
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		ts.Fatalf("%v", err)
	}
	for _, e := range entries {
		ts.Fatalf("%s has %q in it", args[0], e.Name())
	}
}

// examples says where the invoices are. What ought to be executable in a script
// is made so: txtar keeps no modes.
func examples(env *testscript.Env) error {
	invoices, err := filepath.Abs("../../examples/invoices")
	if err != nil {
		return err
	}
	env.Setenv("INVOICES", invoices)
	env.Setenv("CLIENT", filepath.Join(filepath.SplitList(env.Getenv("PATH"))[0], "mcpclient"))
	tools, err := filepath.Glob(filepath.Join(env.WorkDir, "tools", "*"))
	for _, name := range []string{"answer.py", "no.sh", "slow.sh"} {
		if f := filepath.Join(env.WorkDir, name); exists(f) {
			tools = append(tools, f)
		}
	}
	for _, f := range tools {
		err = errors.Join(err, os.Chmod(f, 0o755))
	}
	return err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// listener counts the connections that a server of this machine gets.
type listener struct {
	net.Listener
	count atomic.Int64
}

// listen starts a server of this machine and puts its URL into $URL.
func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: listen")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	l := &listener{Listener: inner}
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			l.count.Add(1)
			c.Close()
		}
	}()
	ts.Setenv("URL", "http://"+l.Addr().String()+"/")
	listeners.Store(ts, l)
}

// listeners are those of the scripts.
var listeners sync.Map

// connections N checks how many connections the server got: first it is shown
// that it would get one.
func connections(ts *testscript.TestScript, neg bool, args []string) {
	l, ok := listeners.Load(ts)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: listen, then connections N")
	}
	server := l.(*listener)
	if got := strconv.FormatInt(server.count.Load(), 10); got != args[0] {
		ts.Fatalf("%s connections, want %s", got, args[0])
	}
	c, err := net.Dial("tcp", server.Addr().String())
	ts.Check(err)
	defer c.Close()
	_, _ = c.Read(make([]byte, 1)) // ends when the server has counted it
	if got := server.count.Load(); strconv.FormatInt(got-1, 10) != args[0] {
		ts.Fatalf("the server does not count: %d", got)
	}
}
