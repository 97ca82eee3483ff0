package preload_test

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
)

// about prints what a program can see of the state it starts in.
const about = `
import os, sys, signal, resource, locale
print(__name__, __doc__, __package__, __spec__, getattr(__loader__, '__name__', type(__loader__).__name__), globals().get('__file__'), sorted(globals()))
print(sys.argv, sys.orig_argv, sys.path, sys.executable, sys.flags, sys.modules['__main__'].__dict__ is globals())
print(os.getcwd(), sorted(os.environ.items()), os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), os.getuid(), os.getgroups(), os.umask(0))
print([(s, signal.getsignal(s)) for s in sorted(signal.valid_signals())], signal.pthread_sigmask(signal.SIG_BLOCK, []))
print([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) if n.startswith('RLIMIT_')])
for s in sys.stdin, sys.stdout, sys.stderr:
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.fileno(), getattr(s.buffer, 'raw', s.buffer).name, s.newlines)
print(locale.setlocale(locale.LC_ALL), sys.stdout is sys.__stdout__)
print(sorted(fd for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)))
for f in 'mountinfo', 'limits', 'uid_map', 'gid_map', 'oom_score_adj', 'cgroup', 'timerslack_ns':
    text = open('/proc/self/' + f).read()
    print(f, '\n'.join(' '.join(l.split()[3:]) for l in text.splitlines()) if f == 'mountinfo' else text)  # without numbers
for line in open('/proc/self/status'):
    if line.split(':')[0] in ('Name Umask Tgid Pid PPid Uid Gid Groups NSpid Threads SigQ SigBlk SigIgn SigCgt ShdPnd SigPnd '
        'CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters Cpus_allowed CoreDumping').split():
        print(line, end='')
import ctypes
print(ctypes.CDLL(None).prctl(3), ctypes.CDLL(None).prctl(7))
`

// Each case is run twice, by a fork of a preloaded interpreter and by one that
// is started for it; both must look and end alike.
func TestLikeOneThatIsStarted(t *testing.T) {
	r := open(t, isolate.Options{})
	dir := files(t, map[string]string{
		"about.py": about, "sub/about.py": about, "pkg/__main__.py": about, "pkg/__init__.py": "", "plain/__main__.py": about, "empty/x": "",
		"tool.py":    "import sys; print(__name__, sys.argv)\nimport helper; print(helper.__file__)\n",
		"helper.py":  "x = 1\n",
		"latin.py":   "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
		"broken.py":  "def f(:\n  pass\n",
		"raises.py":  "def f():\n    raise ValueError('no\\u00e9')\ntry:\n    f()\nexcept ValueError as e:\n    raise KeyError('x') from e\n",
		"closing.py": "import atexit, helper\natexit.register(print, 'at exit')\nclass C:\n    def __del__(self): print('gone', f.closed)\nc = C()\nf = open('/tmp/out', 'w'); f.write('kept')\nprint('end', end='')\n",
	})
	cases := []struct {
		name  string
		args  string // separated by spaces; the last is script if that is not empty
		stdin string
		last  string
	}{
		{"command", "-c", "", about},
		{"command with arguments", "-u -c", "", about},
		{"options in one word", "-uBc", "", "import sys; print(sys.dont_write_bytecode, sys.stdout.write_through, sys.argv)"},
		{"file", "about.py a -b --c", "", ""},
		{"file with dot", "./sub/about.py", "", ""},
		{"file by absolute path", "/workspace/sub/about.py x", "", ""},
		{"file that imports", "tool.py", "", ""},
		{"module", "-m about a b", "", ""},
		{"package", "-m pkg", "", ""},
		{"module of the library", "-m json.tool --compact", `{"a": [1, 2]}`, ""},
		{"module that is not there", "-m nothing.of.that", "", ""},
		{"directory", "plain a", "", ""},
		{"directory without main", "empty", "", ""},
		{"file that is not there", "absent.py", "", ""},
		{"standard input", "", about, ""},
		{"standard input with arguments", "- a b", about, ""},
		{"after double dash", "-- tool.py", "", ""},
		{"encoding", "latin.py", "", ""},
		{"syntax error", "broken.py", "", ""},
		{"syntax error of a command", "-c", "", "def f(:"},
		{"exception with cause", "raises.py", "", ""},
		{"exception of a command", "-c", "", "def f(): 1/0\nf()"},
		{"exception in a module", "-m raises", "", ""},
		{"exit code", "-c", "", "import sys; sys.exit(7)"},
		{"large exit code", "-c", "", "raise SystemExit(256 + 3)"},
		{"exit with true", "-c", "", "raise SystemExit(True)"},
		{"exit with text", "-c", "", "import sys; sys.exit('it is over')"},
		{"exit with nothing", "-c", "", "raise SystemExit"},
		{"os._exit", "-c", "", "import os; print('lost', end=''); os._exit(3)"},
		{"interrupt", "-c", "", "import atexit; atexit.register(print, 'bye'); raise KeyboardInterrupt"},
		{"abort", "-c", "", "import os; os.abort()"},
		{"killed by itself", "-c", "", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"},
		{"closing", "closing.py", "", ""},
		{"standard output closed", "-c", "", "import os, sys; print('x'); os.close(1)"},
		{"threads are waited for", "-c", "", "import threading, time\ndef f(): time.sleep(0.2); print('late')\nthreading.Thread(target=f).start()"},
		{"daemon threads are not", "-c", "", "import threading, time\ndef f(): time.sleep(60); print('never')\nthreading.Thread(target=f, daemon=True).start()"},
		{"thread with an exception", "-c", "", "import threading\nt = threading.Thread(target=lambda: 1/0, name='T'); t.start(); t.join()"},
		{"fork", "-c", "", "import os\nif os.fork() == 0: print('child', os.getppid()); os._exit(0)\nprint(os.wait())"},
		{"subprocess", "-c", "", "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(6*7, sys.argv)'], capture_output=True))"},
		{"multiprocessing", "-c", "", "import multiprocessing as m\nwith m.Pool(2) as p: print(p.map(abs, [-1, -2]))"},
		{"asyncio", "-c", "", "import asyncio\nasync def f(): await asyncio.sleep(0.01); print('done')\nasyncio.run(f())"},
		{"input", "-c", "one\r\ntwo\n", "print([input(), input()])"},
		{"pickling from main", "-c", "", "import pickle\nclass C: pass\nprint(type(pickle.loads(pickle.dumps(C()))) is C)"},
		{"future flags are not inherited", "-c", "", "print(compile('1', 'x', 'eval').co_flags)"},
		{"warning", "-c", "", "import warnings; warnings.warn('careful')"},
	}
	pre, plain := preloading(t, "python:json,random"), isolate.Policy{}
	for _, p := range []*isolate.Policy{&pre, &plain} {
		p.Env = map[string]string{"PYTHONHASHSEED": "7", "OTHER": "é=x"}
		p.Wall = 30e9
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got [2]string
			for i, p := range []isolate.Policy{pre, plain} {
				args := append([]string{"python3"}, strings.Fields(c.args)...)
				if c.last != "" {
					args = append(args, c.last)
				}
				cmd := isolate.Cmd{Args: args, In: []isolate.Input{{Source: dir, Target: ""}}}
				if c.stdin != "" {
					cmd.Stdin = io.MultiReader(strings.NewReader(c.stdin))
				}
				res := run(t, r, p, cmd)
				got[i] = address.ReplaceAllString(fmt.Sprintf("%s %d %d\n%s\n%s", res.Reason, res.ExitCode, res.Signal, res.Stdout.Kept, res.Stderr.Kept), "0x…")
			}
			if got[0] != got[1] {
				t.Errorf("%d and %d bytes differ at\n%s", len(got[0]), len(got[1]), difference(got[0], got[1]))
			}
		})
	}
}

var address = regexp.MustCompile(`0x[0-9a-f]{6,}`)

func difference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	around := func(s string) string { return s[max(0, i-200):min(len(s), i+200)] }
	return "preloaded: …" + around(a) + "…\nstarted: …" + around(b) + "…"
}
