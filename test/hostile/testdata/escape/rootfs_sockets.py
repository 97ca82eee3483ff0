# A9 B73: sockets and pipes of the host that lie in a directory a sandbox is shown; source: docker.sock in a project directory, deepce
import errno
import os
import socket
import sys

# Each argument is a directory in which the host listens at "socket" and reads from "pipe".
for place in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(place + "/socket")
        print(f"socket in {place}: ok")
    except OSError as e:
        print(f"socket in {place}: {errno.errorcode[e.errno]}")
    d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        d.sendto(b"x", place + "/socket")
        print(f"datagram to {place}: ok")
    except OSError as e:
        print(f"datagram to {place}: {errno.errorcode[e.errno]}")
    try:
        os.write(os.open(place + "/pipe", os.O_WRONLY | os.O_NONBLOCK), b"x")
        print(f"pipe in {place}: ok")
    except OSError as e:
        print(f"pipe in {place}: {errno.errorcode[e.errno]}")
