# A29 A30 A31: a workspace made to fool whoever copies it out: links, pipes, sockets, devices' names, setuid, holes; source: go-judge #176, compiler-explorer #6026, CVE-2026-39822
import os
import socket
import sys

secret = sys.argv[1]  # a file of the host
os.chdir("/workspace")
open("good", "w").write("good\n")
open("plain", "w").write("plain\n")
os.symlink(secret, "link")
os.symlink("/etc/passwd", "link-passwd")
os.symlink("/proc/self/environ", "link-environ")
os.symlink("../../../../../../etc", "link-up")
os.symlink("good", "link-good")
os.symlink("/", "directory-link")
os.mkdir("directory")
open("directory/inner", "w").write("inner\n")
os.symlink("..", "directory/loop")
os.link("good", "hard")
if hasattr(os, "mkfifo"):
    try:
        os.mkfifo("pipe")
    except OSError:  # profile strict has no mknod
        pass
s = socket.socket(socket.AF_UNIX)
s.bind("socket")
open("setuid", "w").write("x")
os.chmod("setuid", 0o6755)
for name in ("new\nline", "esc\x1b[31m", "back\\slash", "-rf", " ", "c:\\x", "..x", "\u202e", "workspace-evil"):
    open(name, "w").write("name\n")
open(b"latin\xe9", "w").write("name\n")
os.makedirs(".git/hooks")
open(".git/hooks/post-checkout", "w").write("#!/bin/sh\n")
os.chmod(".git/hooks/post-checkout", 0o755)
with open("hole", "wb") as f:
    f.truncate(1 << 20)
os.makedirs("/".join(["d"] * 80))
unreadable = os.open("unreadable", os.O_CREAT | os.O_WRONLY, 0o000)
print("made: ok")
