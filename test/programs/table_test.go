package programs

import (
	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
)

// What the strict profile lacks, in the words of docs/profiles.md.
const (
	noInternet  = "IPv4 and IPv6 sockets, loopback too; those of AF_UNIX work"
	noTerminals = "terminals, its own and those it makes"
	noProcInfo  = "files of /proc that are not of processes, such as cpuinfo"
	noSetuid    = "setresuid and setresgid, with which make gives its children its own ids"
	noMknod     = "mknodat, which makes named pipes"
	noInotify   = "inotify"
)

func tools(names ...string) []testenv.Feature {
	var list []testenv.Feature
	for _, n := range names {
		list = append(list, testenv.Tool(n))
	}
	return list
}

// programs is the table, in the order of the document.
var programs = []program{
	{
		name: "python-threads", does: "fifty threads of Python at a barrier",
		needs: tools("python3"), file: "python_threads.py", args: python("python_threads.py"),
		prints: "50 threads: 1225 50\n",
	}, {
		name: "python-multiprocessing", does: "multiprocessing by fork, spawn and forkserver; a pool",
		needs: tools("python3"), file: "python_multiprocessing.py", args: python("python_multiprocessing.py"),
		prints: "fork 49 0\nspawn 49 0\nforkserver 49 0\npool 14850\n",
	}, {
		name: "python-shared-memory", does: "shared_memory and semaphores between processes",
		needs: tools("python3"), file: "python_shared_memory.py", args: python("python_shared_memory.py"),
		prints: "True hello 0\n",
	}, {
		name: "python-asyncio", does: "asyncio with subprocesses, threads and timers",
		needs: tools("python3"), file: "python_asyncio.py", args: python("python_asyncio.py"),
		prints: "[(100, 0), (101, 0), (102, 0), (103, 0), (104, 0)]\n45\ntimed out\n",
	}, {
		name: "python-sqlite", does: "the sqlite3 module with a write-ahead log",
		needs: tools("python3"), file: "python_sqlite.py", args: python("python_sqlite.py"),
		prints: "wal\n(1000, 'row 999')\n42\n",
	}, {
		name: "python-user", does: "user name, home and temporary files",
		needs: tools("python3"), file: "python_user.py", args: python("python_user.py"),
		prints: "sandbox sandbox sandbox\nTrue True\n/tmp temporary\nTrue\n",
	}, {
		name: "python-files", does: "links, locks, maps, trees copied, moved and removed",
		needs: tools("python3"), file: "python_files.py", args: python("python_files.py"),
		prints: "20000 2 2\n['e', 'f', 'h', 's'] f\nb'map!4567'\nTrue\n",
	}, {
		name: "python-password", does: "getpass on a terminal that the caller gives (`--tty`)",
		needs: tools("python3"), file: "python_password.py", args: python("python_password.py"),
		prompt: "word: ", types: "secret\n", prints: "word: \r\n6 True True\r\n",
		strict: &refusal{"cannot give a terminal: profile strict has none", noTerminals},
	}, {
		name: "python-pty", does: "the pty module: a program that makes terminals",
		needs: tools("python3"), file: "python_pty.py", args: python("python_pty.py"),
		prints: "0 True\nTrue\n",
		strict: &refusal{"out of pty devices", noTerminals},
	}, {
		name: "python-tcp", does: "a TCP server and its client on 127.0.0.1 and ::1; asyncio streams",
		needs: append(tools("python3"), testenv.IPv6Loopback), file: "python_tcp.py", args: python("python_tcp.py"),
		prints: "127.0.0.1 HELLO\n::1 HELLO\nlocalhost HELLO\nASYNCIO\n",
		strict: &refusal{"[Errno 101] Network is unreachable", noInternet},
	}, {
		name: "python-http", does: "http.server and urllib in one program",
		needs: tools("python3"), file: "python_http.py", args: python("python_http.py"),
		prints: "path /127.0.0.1\npath /localhost\n",
		strict: &refusal{"[Errno 101] Network is unreachable", noInternet},
	}, {
		name: "python-udp", does: "datagrams on 127.0.0.1 and ::1",
		needs: append(tools("python3"), testenv.IPv6Loopback), file: "python_udp.py", args: python("python_udp.py"),
		prints: "127.0.0.1 ping pong\n::1 ping pong\n",
		strict: &refusal{"[Errno 101] Network is unreachable", noInternet},
	}, {
		name: "python-unix", does: "Unix sockets of all types, socketpair, descriptors sent across",
		needs: tools("python3"), file: "python_unix.py", args: python("python_unix.py"),
		prints: "pair\n/tmp/socket SOCK_STREAM 10\n/tmp/socket SOCK_SEQPACKET 10\n" +
			"abstract SOCK_STREAM 10\nabstract SOCK_SEQPACKET 10\ndatagram\nthrough\n",
	}, {
		// numpy brings f2py
		name: "python-numpy", does: "numpy with the threads of its BLAS",
		needs: tools("python3", "f2py"), file: "python_numpy.py", args: python("python_numpy.py"),
		policy: isolate.Policy{Memory: 1 << 30},
		prints: "numpy 125000000.0\n3.0\n",
	}, {
		name: "node-workers", does: "eight worker threads of Node with shared memory",
		needs: tools("node"), file: "node_workers.js", args: node("node_workers.js"),
		policy: isolate.Policy{Memory: 1 << 30},
		prints: "workers 00000000 28\n",
	}, {
		name: "node-children", does: "child_process: execFile, exec, spawn and fork",
		needs: tools("node"), file: "node_children.js", args: node("node_children.js"),
		prints: "file ok\nshell 3\nb a\nsort 0\nforked 42\n",
	}, {
		name: "node-files", does: "fs, os, crypto and zlib of Node",
		needs: tools("node"), file: "node_files.js", args: node("node_files.js"),
		prints: "f g 1000000\nsandbox true sandbox true\nba7816bf8f01cfea 8\n16 ed25519 zip\n",
	}, {
		name: "node-cpus", does: "os.cpus and memory of Node",
		needs: tools("node"), file: "node_cpus.js", args: node("node_cpus.js"),
		prints: "true true 3\n",
		strict: &refusal{"no processors", noProcInfo},
	}, {
		name: "node-watch", does: "fs.watch of Node",
		needs: tools("node"), file: "node_watch.js", args: node("node_watch.js"),
		prints: "watched seen\n",
		strict: &refusal{"ENOSYS: function not implemented, watch", noInotify},
	}, {
		name: "node-net", does: "net, http and fetch of Node on 127.0.0.1, ::1 and localhost",
		needs: append(tools("node"), testenv.IPv6Loopback), file: "node_net.js", args: node("node_net.js"),
		prints: "from 127.0.0.1\nfrom ::1\nhttp /x\n",
		strict: &refusal{"ENETUNREACH listen", noInternet},
	}, {
		name: "bash", does: "pipelines, substitutions, jobs, coprocesses and traps",
		needs: tools("bash"), file: "pipelines.sh", args: bash("pipelines.sh"),
		prints: "997 987 979\n< b\n> c\njobs 123\ncoproc through\nhere 2\n1000000\ntrapped\nbye\nfile\n",
	}, {
		name: "fifo", does: "mkfifo: a named pipe between two jobs",
		needs: tools("bash"), file: "fifo.sh", args: bash("fifo.sh"),
		prints: "named\n",
		strict: &refusal{"mkfifo: cannot create fifo 'pipe': Function not implemented", noMknod},
	}, {
		name: "text", does: "awk, sed, grep, find, xargs, sort, join, split, timeout, nproc",
		needs: tools("bash", "awk", "sed", "grep", "find"), file: "text.sh", args: bash("text.sh"),
		prints: "city0 20\ncity1 35\n1 2 3 4 5\n3\nx.txt y.txt\n3\n25\n5\n3\n3\n1970\nin time\n1\n",
	}, {
		name: "archives", does: "tar, gzip and xz",
		needs: tools("bash", "tar", "gzip", "xz"), file: "archive.sh", args: bash("archive.sh", "gzip", "xz"),
		prints: "gzip 750 4\nxz 750 4\n20000\n20000\n",
	}, {
		name: "archives-more", does: "tar with bzip2 and zstd",
		needs: tools("bash", "tar", "gzip", "xz", "bzip2", "zstd"), file: "archive.sh", args: bash("archive.sh", "bzip2", "zstd"),
		prints: "bzip2 750 4\nzstd 750 4\n20000\n20000\n",
	}, {
		name: "git", does: "git init, add, commit, merge, gc, fsck, clone, log and diff",
		needs: tools("bash", "git"), file: "git.sh", args: bash("git.sh"),
		prints: "5\n0\n0\nmerged\n0\n 1 file changed, 1 insertion(+), 1 deletion(-)\n",
	}, {
		name: "sqlite3", does: "the sqlite3 shell",
		needs: tools("bash", "sqlite3"), file: "sqlite.sh", args: bash("sqlite.sh"),
		prints: "3,\"x,y\"\nwal\nok\n",
	}, {
		name: "perl", does: "perl with fork, pipes, alarms and a temporary file",
		needs: tools("perl"), file: "program.pl", args: []string{"perl", "program.pl"},
		prints: "read child\ncode 3\na b\nalarm\n",
	}, {
		name: "gcc", does: "a C program with a thread, compiled and run",
		needs: tools("gcc"), file: "hello.c", args: sh("gcc -O1 -pthread -o hello hello.c -lm && ./hello"),
		prints: "C 42\n",
	}, {
		name: "g++", does: "a C++ program with a thread and an exception, compiled and run",
		needs: tools("g++"), file: "hello.cc", args: sh("g++ -pthread -o hello hello.cc && ./hello"),
		prints: "C++ 42\n",
	}, {
		name: "make", does: "make of two objects at once, and the program",
		needs: tools("make", "gcc"), file: "Makefile", args: []string{"make", "-s", "-j2"},
		prints: "made 42\n",
		strict: &refusal{"make: /bin/sh: Function not implemented", noSetuid},
	}, {
		name: "go", does: "go build of a module and its standard packages, from an empty cache",
		needs: tools("bash", "go"), file: "gomodule", args: bash("go.sh"),
		policy: isolate.Policy{Memory: 1 << 30, Disk: 512 << 20},
		prints: "go 42\n",
		slow:   true,
	}, {
		name: "java", does: "javac and java with threads and a child process",
		needs: tools("java", "javac"), file: "Main.java",
		args:   sh("javac -J-Xmx256m Main.java && java -Xmx256m Main"),
		policy: isolate.Policy{Memory: 1 << 30},
		prints: "java 42 file 0\n",
	}, {
		name: "tmux", does: "tmux: server, session and shell",
		needs: tools("bash", "tmux"), file: "tmux.sh", args: bash("tmux.sh"),
		prints: "42\ns 80\n",
		strict: &refusal{"create window failed: fork failed", noTerminals},
	}, {
		name: "script", does: "script(1): a program on a terminal of its own",
		needs: tools("bash", "script"), file: "script.sh", args: bash("script.sh"),
		prints: "code 3\n1\n",
		strict: &refusal{"script: failed to create pseudo-terminal", noTerminals},
	}, {
		name: "expect", does: "expect talks to a program that wants a terminal",
		needs: tools("expect"), file: "dialogue.exp", args: []string{"expect", "dialogue.exp"},
		prints: "answered, code 4\n",
		strict: &refusal{"The system has no more ptys", noTerminals},
	},
}

func python(file string) []string  { return []string{"/usr/bin/python3", file} }
func node(file string) []string    { return []string{"node", file} }
func bash(args ...string) []string { return append([]string{"bash"}, args...) }
func sh(line string) []string      { return []string{"sh", "-c", line} }
