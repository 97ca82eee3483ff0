package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/isolate-run/isolate/client"
)

// kind is one kind of run: how often it is drawn as against the others, and
// what is wrong with what came of it.
type kind struct {
	name  string
	often int
	do    func(*caller) error
}

var kinds = []kind{
	{"answer", 12, (*caller).answer},
	{"answer over HTTP", 8, (*caller).answerHTTP},
	{"files in and out", 4, (*caller).files},
	{"python", 2, (*caller).python},
	{"tools", 2, (*caller).tools},
	{"caller killed while its tool works", 1, (*caller).toolKilled},
	{"kept sandbox", 2, (*caller).kept},
	{"detached", 2, (*caller).detached},
	{"detached and killed", 2, (*caller).killed},
	{"request cancelled", 2, (*caller).cancelled},
	{"nothing", 6, fate{args: []string{"true"}, reason: "exit"}.meet},
	{"failure", 2, fate{args: sh("exit 42"), code: 42, reason: "exit"}.meet},
	{"not found", 1, fate{args: []string{"no-such-program"}, code: 127, reason: "exit"}.meet},
	{"much output", 2, fate{args: []string{"head", "-c", "1000000", "/dev/zero"}, flags: []string{"--output", "2M"}, reason: "exit", stdout: 1_000_000}.meet},
	{"signal", 1, fate{args: sh("kill -SEGV $$"), code: 139, reason: "signal"}.meet},
	{"timeout", 1, fate{args: sh("exec sleep $REST"), flags: []string{"--time", "300ms"}, code: 124, reason: "wall"}.meet},
	{"memory", 1, fate{args: sh(`x=$(head -c 100000000 /dev/zero | tr '\0' x)`), flags: []string{"--memory", "8M"}, code: failure, reason: "oom"}.meet},
	{"forks", 1, fate{args: sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep $REST & done; wait"), flags: []string{"--pids", "10"}, code: failure, reason: "pids"}.meet},
	{"interrupted", 1, fate{args: sh("echo up; exec sleep $REST"), harm: syscall.SIGINT, code: 130, reason: "cancelled"}.meet},
	{"terminated", 1, fate{args: sh("echo up; exec sleep $REST"), harm: syscall.SIGTERM, code: 143, reason: "cancelled"}.meet},
	{"caller killed", 2, fate{args: sh("echo up; sleep $REST & exec sleep $REST"), harm: syscall.SIGKILL, code: gone}.meet},
	{"caller killed while it is read", 2, fate{args: sh("echo up; cat"), flags: []string{"--stdin"}, harm: syscall.SIGKILL, code: gone}.meet},
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// weak lets programs run where there is no controller for limits.
const weak = `allow = ["weak-limits"]`

// command is isolate exec with a document of its end in the caller's directory.
func (c *caller) command(flags []string, program ...string) *exec.Cmd {
	args := append([]string{"exec", "--allow", "weak-limits", "--env", "REST=" + c.rest, "--meta", c.meta()}, flags...)
	cmd := exec.Command("isolate", append(append(args, "--"), program...)...)
	cmd.Env = c.env
	return cmd
}

func (c *caller) meta() string { return filepath.Join(c.dir, "meta") }

// ended says what is wrong with the document of a command.
func (c *caller) ended(reason string) error {
	text, err := os.ReadFile(c.meta())
	if err != nil {
		return err
	}
	var m struct{ Via, Reason string }
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Via != "server" || m.Reason != reason {
		return fmt.Errorf("%+v, want reason %s through the server", m, reason)
	}
	return nil
}

// Exit codes in a fate that are no number.
const (
	gone    = -1 // of a command that was killed
	failure = -2 // any but 0
)

// fate is a command that something happens to.
type fate struct {
	args, flags []string
	// harm is sent to the command when its program has said "up"; 0 is nothing.
	harm   syscall.Signal
	code   int
	reason string // empty: nobody is left to be told
	stdout int    // bytes
}

func (f fate) meet(c *caller) error {
	cmd := c.command(f.flags, f.args...)
	in, err := cmd.StdinPipe() // open as long as the command lives
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Start(); err != nil {
		return err
	}
	c.ran.Add(1)
	read := bufio.NewReader(out)
	if f.harm != 0 {
		if line, err := read.ReadString('\n'); line != "up\n" {
			_ = cmd.Process.Kill()
			return errors.Join(fmt.Errorf("says %q, %v; %s", line, err, words.String()), cmd.Wait())
		}
		_ = cmd.Process.Signal(f.harm)
	}
	n, err := io.Copy(io.Discard, read)
	_ = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if how := cmd.ProcessState.Sys().(syscall.WaitStatus); how.Signaled() && how.Signal() == syscall.SIGINT { // as a shell says it
		code = 128 + int(how.Signal())
	}
	switch {
	case err != nil:
		return err
	case n != int64(f.stdout):
		return fmt.Errorf("%d bytes of output, want %d", n, f.stdout)
	case f.code == failure && code <= 0 || f.code != failure && code != f.code:
		return fmt.Errorf("exit code %d, want %d; %s", code, f.code, words.String())
	case f.reason == "":
		return nil
	}
	return c.ended(f.reason)
}

// sum is a program in the shell with an answer that only its input gives.
const sum = `read -r a; echo $((a * 7 + 5)); exit $((a % 100))`

// answered says what is wrong with the answer of sum.
func answered(a int, stdout string, code int) error {
	if want := strconv.Itoa(a*7+5) + "\n"; stdout != want || code != a%100 {
		return fmt.Errorf("%q and exit code %d, want %q and %d", stdout, code, want, a%100)
	}
	return nil
}

func (c *caller) answer() error {
	a := rand.IntN(1e9)
	cmd := c.command([]string{"--stdin"}, sh(sum)...)
	cmd.Stdin = strings.NewReader(strconv.Itoa(a) + "\n")
	c.ran.Add(1)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return errors.Join(answered(a, string(out), cmd.ProcessState.ExitCode()), c.ended("exit"))
}

// random is something of which the answer is its SHA-256.
func random() (data []byte, digest string) {
	data = make([]byte, 1+rand.IntN(100_000))
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	d := sha256.Sum256(data)
	return data, hex.EncodeToString(d[:])
}

func (c *caller) python() error {
	data, digest := random()
	cmd := c.command([]string{"--stdin"}, "python3", "-c", "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())")
	cmd.Stdin = bytes.NewReader(data)
	c.ran.Add(1)
	if out, err := cmd.Output(); err != nil || string(out) != digest+"\n" {
		return fmt.Errorf("%q, %v, want %s", out, err, digest)
	}
	return c.ended("exit")
}

func (c *caller) files() error {
	data, digest := random()
	in, out := filepath.Join(c.dir, "in"), filepath.Join(c.dir, "out")
	if err := errors.Join(os.RemoveAll(out), os.WriteFile(in, data, 0o600)); err != nil {
		return err
	}
	c.ran.Add(1)
	words, err := c.command([]string{"--in", in + ":a/b", "--out", out}, sh("sha256sum < a/b > c; mv a/b d")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, words)
	}
	got, err := os.ReadFile(filepath.Join(out, "c"))
	same, errSame := os.ReadFile(filepath.Join(out, "d"))
	if string(got) != digest+"  -\n" || !bytes.Equal(same, data) {
		return fmt.Errorf("%q and %d bytes, %w, want %s and %d", got, len(same), errors.Join(err, errSame), digest, len(data))
	}
	return c.ended("exit")
}

// withTools is isolate run of a Python program that has a tool in the shell.
func (c *caller) withTools(program, tool string) (*exec.Cmd, error) {
	at := filepath.Join(c.dir, "tool")
	err := errors.Join(os.WriteFile(filepath.Join(c.dir, "p.py"), []byte(program), 0o600), os.WriteFile(at, []byte("#!/bin/sh\n"+tool), 0o700))
	cmd := exec.Command("isolate", "run", "--allow", "weak-limits", "--meta", c.meta(), "--tool", "work="+at, filepath.Join(c.dir, "p.py"))
	cmd.Env = c.env
	return cmd, err
}

func (c *caller) tools() error {
	a := rand.IntN(1e9)
	cmd, err := c.withTools(fmt.Sprintf("from isolate_tools import work\nprint(work(a=%d)['a'])", a), "exec cat")
	if err != nil {
		return err
	}
	c.ran.Add(1)
	if out, err := cmd.Output(); err != nil || string(out) != strconv.Itoa(a)+"\n" {
		return fmt.Errorf("%q, %v, want %d", out, err, a)
	}
	return c.ended("exit")
}

func (c *caller) toolKilled() error {
	up := filepath.Join(c.dir, "up")
	if err := os.RemoveAll(up); err != nil {
		return err
	}
	cmd, err := c.withTools("from isolate_tools import work\nwork()", "touch "+up+"\nexec sleep "+c.rest)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	c.ran.Add(1)
	for range 6000 {
		if _, err = os.Stat(up); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return err
}

// events are what came of a run over HTTP.
type events struct {
	stdout []byte
	code   int
	reason string
}

func (e *events) take(v client.Event) error {
	switch v.Type {
	case client.EventStdout:
		e.stdout = append(e.stdout, v.Data...)
	case client.EventResult:
		e.code = v.CommandExitCode
		return e.judge(v.Result)
	case client.EventError:
		return fmt.Errorf("no result: %v", v.Problems)
	}
	return nil
}

func (e *events) judge(result json.RawMessage) error {
	var r struct{ Reason string }
	err := json.Unmarshal(result, &r)
	e.reason = r.Reason
	return err
}

func (c *caller) answerHTTP() error {
	a := rand.IntN(1e9)
	var e events
	c.ran.Add(1)
	err := c.client.Run(context.Background(), client.RunRequest{Policy: weak, Args: sh(sum), Input: []byte(strconv.Itoa(a))}, e.take)
	return errors.Join(err, answered(a, string(e.stdout), e.code))
}

func (c *caller) kept() error {
	ctx := context.Background()
	sb, err := c.client.NewSandbox(ctx, client.SandboxRequest{Policy: weak})
	if err != nil {
		return err
	}
	data, digest := random()
	w, err := c.client.PutFile(ctx, sb.ID, "f", 0o600, bytes.NewReader(data))
	if err != nil || w.SHA256 != digest {
		return fmt.Errorf("put: %+v, %w", w, err)
	}
	var e events
	c.ran.Add(1)
	err = c.client.RunIn(ctx, sb.ID, client.RunRequest{Args: sh("sha256sum < f; mv f g; sleep " + c.rest + " &")}, e.take)
	if err != nil || string(e.stdout) != digest+"  -\n" || e.reason != "exit" {
		return fmt.Errorf("%+v, %w", e, err)
	}
	f, err := c.client.GetFile(ctx, sb.ID, "g", 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data) {
		return fmt.Errorf("got %d bytes, %w, want %d", len(got), err, len(data))
	}
	return c.client.DeleteSandbox(ctx, sb.ID)
}

func (c *caller) detached() error {
	a := rand.IntN(1e9)
	c.ran.Add(1)
	r, err := c.client.Start(context.Background(), client.RunRequest{Policy: weak, Args: sh(sum), Input: []byte(strconv.Itoa(a))})
	if err != nil {
		return err
	}
	if r, err = c.client.WaitRun(context.Background(), r.ID); err != nil {
		return err
	}
	var e events
	if err := c.client.Logs(context.Background(), r.ID, e.take); err != nil {
		return err
	}
	return answered(a, string(e.stdout), *r.ExitCode)
}

func (c *caller) killed() error {
	c.ran.Add(1)
	r, err := c.client.Start(context.Background(), client.RunRequest{Policy: weak, Args: []string{"sleep", c.rest}})
	if err != nil {
		return err
	}
	if err := c.client.KillRun(context.Background(), r.ID); err != nil {
		return err
	}
	if r, err = c.client.WaitRun(context.Background(), r.ID); err != nil {
		return err
	}
	var e events
	if err := e.judge(r.Result); err != nil || e.reason != "cancelled" || !r.Killed {
		return fmt.Errorf("killed %t, %s, %w", r.Killed, r.Result, err)
	}
	return nil
}

// errEnough ends a request in the middle of its answer.
var errEnough = errors.New("enough")

func (c *caller) cancelled() error {
	c.ran.Add(1)
	err := c.client.Run(context.Background(), client.RunRequest{Policy: weak, Args: sh("echo up; exec sleep " + c.rest)}, func(v client.Event) error {
		if v.Type == client.EventStdout {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return fmt.Errorf("the program says nothing: %w", err)
	}
	return nil
}
