# A79: a program that makes a terminal of its own, as expect and editors do.
import os, pty, subprocess

seen = bytearray()
pid, master = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "tty >/dev/null && stty size && read x </dev/tty && echo got $x"])
os.write(master, b"typed\n")
try:
    while chunk := os.read(master, 1024):
        seen += chunk
except OSError:
    pass  # EIO is how a terminal without a process ends
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), b"got typed" in seen)
a, b = pty.openpty()
print(subprocess.run(["tty"], stdin=b, capture_output=True, text=True).stdout.startswith("/dev/pts/"))
