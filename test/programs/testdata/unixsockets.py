# A10: Unix sockets of every kind, named, abstract and in pairs, with
# descriptors and credentials handed over.
import array
import os
import socket
import threading

for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for name in (f"/tmp/socket{kind}", f"\0abstract{kind}"):
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(name)
        server.listen()
        threading.Thread(target=lambda: server.accept()[0].send(b"hello")).start()
        client = socket.socket(socket.AF_UNIX, kind)
        client.connect(name)
        print(kind.name, "abstract" if name[0] == "\0" else "named", client.recv(100).decode())

a, b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
a.bind("/tmp/datagrams")
b.sendto(b"datagram", "/tmp/datagrams")
print(a.recv(100).decode())

a, b = socket.socketpair()
r, w = os.pipe()
socket.send_fds(a, [b"x"], [w])
_, fds, _, _ = socket.recv_fds(b, 10, 1)
os.write(fds[0], b"through a descriptor")
print(os.read(r, 100).decode())
pid, uid, gid = array.array("i", b.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print("peer", pid == os.getpid(), uid == os.getuid(), gid == os.getgid())
