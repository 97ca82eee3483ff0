# B6: names by the C library, by UDP, by a caching daemon; source: name look-ups that hang without a network
import errno
import os
import socket
import time

start = time.monotonic()
for what, look in (
    ("getaddrinfo", lambda: socket.getaddrinfo("outside.example", 80)),
    ("gethostbyname", lambda: socket.gethostbyname("outside.example")),
    ("gethostbyaddr", lambda: socket.gethostbyaddr("192.0.2.1")),
):
    try:
        look()
        print(f"{what}: ok")
    except OSError as e:
        print(f"{what}: {'no name' if isinstance(e, (socket.gaierror, socket.herror)) else e}")
took = time.monotonic() - start
# a resolver that is waited for takes 10 s each
print(f"all three, at once: {'yes' if took < 20 else took}")


def ask(server):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(10)
        s.connect((server, 53))
        s.send(b"\x00\x01\x01\x00\x00\x01" + bytes(6) + b"\x07outside\x07example\x00\x00\x01\x00\x01")
        s.recv(512)
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]


print("UDP query outside:", ask("192.0.2.1"))
print("UDP query to the local stub:", ask("127.0.0.53"))
print("size of resolv.conf:", os.stat("/etc/resolv.conf").st_size)
for path in ("/var/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve"):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        print(f"{path}: ok")
    except OSError as e:
        print(f"{path}: {errno.errorcode[e.errno]}")
