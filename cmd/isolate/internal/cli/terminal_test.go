package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
)

// openPTY gives the two ends of a new pseudo-terminal: what a terminal window
// holds, and what the programs in it see.
func openPTY(t *testing.T) (window, tty *os.File) {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { window.Close() })
	if err := unix.IoctlSetPointerInt(int(window.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(window.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return window, tty
}

func resize(t *testing.T, f *os.File, rows, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}

func modes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// shown reads what the window shows up to a marker that is printed last.
func shown(t *testing.T, window, tty *os.File) string {
	t.Helper()
	const marker = "<end>"
	if _, err := tty.WriteString(marker); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for r := bufio.NewReader(window); !strings.HasSuffix(got.String(), marker); {
		c, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.WriteByte(c)
	}
	return strings.TrimSuffix(got.String(), marker)
}

func TestSession(t *testing.T) {
	window, tty := openPTY(t)
	resize(t, window, 30, 90)
	before := modes(t, tty)
	f := &fake{run: func(_ context.Context, c isolate.Cmd) (isolate.Result, error) {
		if c.Stdin != nil || c.Stdout != nil || c.Stderr != nil || c.Terminal == nil {
			t.Errorf("streams of %+v", c)
			return isolate.Result{}, nil
		}
		if want := (isolate.WindowSize{Rows: 30, Cols: 90}); c.Terminal.Size != want {
			t.Errorf("size %v, want %v", c.Terminal.Size, want)
		}
		if m := modes(t, tty); m.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 || m.Oflag&unix.OPOST != 0 {
			t.Errorf("the terminal is not in raw mode: %+v", m)
		}
		// A key arrives as it is typed, without a line feed; ^C is a key too.
		window.WriteString("q\x03")
		keys := make([]byte, 2)
		if _, err := io.ReadFull(c.Terminal.Input, keys); err != nil || string(keys) != "q\x03" {
			t.Errorf("keys %q, %v", keys, err)
		}
		resize(t, window, 40, 100)
		syscall.Kill(os.Getpid(), syscall.SIGWINCH)
		select {
		case got := <-c.Terminal.Resize:
			if want := (isolate.WindowSize{Rows: 40, Cols: 100}); got != want {
				t.Errorf("new size %v, want %v", got, want)
			}
		case <-time.After(60 * time.Second):
			t.Error("the new size was not announced")
		}
		io.WriteString(c.Terminal.Output, "\x1b[?1049h\x1b]0;owned\ahello")
		return isolate.Result{Reason: isolate.ReasonExit, ExitCode: 5}, nil
	}}
	var stderr bytes.Buffer
	a := testApp(f, "/", tty, tty, &stderr)
	if code := a.main(t.Context(), []string{"exec", "--tty", "vi"}); code != 5 || stderr.Len() > 0 {
		t.Errorf("code %d, standard error %q", code, stderr.String())
	}
	if after := modes(t, tty); !reflect.DeepEqual(after, before) {
		t.Errorf("modes before %+v, after %+v", before, after)
	}
	const want = "\x1b[?1049hhello\x1b[?1049l\x1b[4l\x1b>\x0f\x1b(B\x1b[0m"
	if got := shown(t, window, tty); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// TestSessionEnds: however it ends, the user gets the terminal back as it
// was, and what was typed for the program is not typed into the shell.
func TestSessionEnds(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	// below nohup, or in the background, they are ignored
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(heard)
	for name, run := range map[string]func(context.Context, isolate.Cmd) (isolate.Result, error){
		"error": func(context.Context, isolate.Cmd) (isolate.Result, error) {
			return isolate.Result{}, io.ErrUnexpectedEOF
		},
		"signal": func(ctx context.Context, _ isolate.Cmd) (isolate.Result, error) {
			syscall.Kill(os.Getpid(), syscall.SIGHUP)
			<-ctx.Done()
			return isolate.Result{Reason: isolate.ReasonCancelled}, nil
		},
		"two signals": func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			<-ctx.Done()
			syscall.Kill(os.Getpid(), syscall.SIGINT)
			<-release
			_, err := c.Terminal.Output.Write([]byte("too late"))
			return isolate.Result{}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			window, tty := openPTY(t)
			before := modes(t, tty)
			f := &fake{run: func(ctx context.Context, c isolate.Cmd) (isolate.Result, error) {
				window.WriteString("rm -rf /\r")
				return run(ctx, c)
			}}
			a := testApp(f, "/", tty, tty, io.Discard)
			if code := a.main(t.Context(), []string{"exec", "--tty", "vi"}); code < exitRefused {
				t.Errorf("code %d", code)
			}
			if after := modes(t, tty); !reflect.DeepEqual(after, before) {
				t.Errorf("modes before %+v, after %+v", before, after)
			}
			if n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCINQ); err != nil || n != 0 {
				t.Errorf("%d bytes are left to be read, %v", n, err)
			}
		})
	}
}

// TestTextOnATerminal: without --tty a program cannot drive the terminal it
// is shown on (cases B 42).
func TestTextOnATerminal(t *testing.T) {
	window, tty := openPTY(t)
	f := &fake{run: func(_ context.Context, c isolate.Cmd) (isolate.Result, error) {
		for _, piece := range []string{"\x1b", "]52;c;cm0gLXJm", "\a\x1b[31", "mred\xf0\x9f"} {
			io.WriteString(c.Stdout, piece)
		}
		io.WriteString(c.Stderr, "\x1b[2J")
		return isolate.Result{Reason: isolate.ReasonExit}, nil
	}}
	a := testApp(f, "/", tty, tty, tty)
	if code := a.main(t.Context(), []string{"exec", "x"}); code != 0 {
		t.Errorf("code %d", code)
	}
	const want = `\x1b]52;c;cm0gLXJm\x07` + "\x1b[31mred" + `\x1b[2J` + `\xf0\x9f` + "\x1b[0m"
	if got := shown(t, window, tty); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// What isolate says begins a line of its own on a terminal.
func TestWordsAfterHalfALine(t *testing.T) {
	window, tty := openPTY(t)
	f := &fake{run: func(_ context.Context, c isolate.Cmd) (isolate.Result, error) {
		io.WriteString(c.Stdout, "half")
		return isolate.Result{Reason: isolate.ReasonOOM}, nil
	}}
	testApp(f, "/", tty, tty, tty).main(t.Context(), []string{"exec", "x"})
	const want = "half\r\nisolate: ended by the memory limit (512M); raise it with --memory\r\n"
	if got := shown(t, window, tty); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestShell(t *testing.T) {
	_, tty := openPTY(t)
	for _, c := range []struct {
		args []string
		wall time.Duration
		term string
	}{
		{nil, shellTime, "vt220"},
		{[]string{"--time", "2h", "--memory", "1G", "--env", "TERM=dumb"}, 2 * time.Hour, "dumb"},
	} {
		f := &fake{}
		a := testApp(f, "/", tty, tty, io.Discard)
		if code := a.main(t.Context(), append([]string{"shell"}, c.args...)); code != 0 {
			t.Errorf("%q: code %d", c.args, code)
		}
		if f.cmd.Env["TERM"] != c.term {
			t.Errorf("%q: TERM is %q, want %q", c.args, f.cmd.Env["TERM"], c.term)
		}
		if f.policy.Wall != c.wall || f.cmd.Terminal == nil || f.cmd.Args[0] != "sh" {
			t.Errorf("%q: limit %v, command %+v", c.args, f.policy.Wall, f.cmd)
		}
	}
}

// TestToolsOnANarrowTerminal: the table of tools has a line a tool, cut where the
// terminal ends; elsewhere it is whole.
func TestToolsOnANarrowTerminal(t *testing.T) {
	all := []listed{
		{Name: "look", Approve: "never", Source: "command tools/look", Description: "Shows what there is \x1b[2Jto be seen, and more of it"},
		{Name: "ärger", Approve: "ask", Description: strings.Repeat("ö", 60)},
	}
	window, tty := openPTY(t)
	resize(t, tty, 24, 40)
	if err := printTools(tty, all); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(shown(t, window, tty), "\r\n")
	for _, line := range lines[:len(all)+1] {
		if n := len([]rune(line)); n > 40 || strings.ContainsRune(line, '\x1b') {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if len(lines) != len(all)+2 || !strings.HasSuffix(lines[1], "…") || !strings.HasPrefix(lines[2], "ärger") {
		t.Errorf("%q", lines)
	}
	var whole strings.Builder
	if err := printTools(&whole, all); err != nil || !strings.Contains(whole.String(), `\u001b[2Jto be seen, and more of it`) {
		t.Errorf("%q, %v", whole.String(), err)
	}
}

// A put without a source does not wait for what somebody may type.
func TestPutOfATerminal(t *testing.T) {
	_, tty := openPTY(t)
	var stderr bytes.Buffer
	args := []string{"isolate", "sandbox", "put", "--socket", t.TempDir() + "/none", "s1", "a b"}
	code := Run(t.Context(), args, tty, io.Discard, &stderr)
	want := "error: cannot put \"a b\": there is no source, and standard input is a terminal\n" +
		"hint: isolate sandbox put s1 \"a b\" SOURCE\n" +
		"hint: isolate sandbox put s1 \"a b\" <FILE\n"
	if code != exitRefused || stderr.String() != want {
		t.Errorf("%d, %s", code, stderr.String())
	}
}
