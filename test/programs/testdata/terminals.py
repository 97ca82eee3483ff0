# A79, gVisor's PTY cases: a program that makes terminals for others.
import os
import pty

pid, master = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "tty; stty size; echo to the terminal >/dev/tty"])
out = b""
try:
    while chunk := os.read(master, 1024):
        out += chunk
except OSError:
    pass
os.waitpid(pid, 0)
print(out.decode().replace("\r\n", "\n"), end="")
