# Sockets of one machine: socketpair, a path, an abstract name, and a descriptor sent across.
import os, socket

a, b = socket.socketpair()
a.sendall(b"pair")
print(b.recv(10).decode())
for name in "/tmp/socket", "\0abstract":
    for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET:
        with socket.socket(socket.AF_UNIX, kind) as server, socket.socket(socket.AF_UNIX, kind) as client:
            server.bind(name)
            server.listen()
            client.connect(name)
            conn, _ = server.accept()
            with conn:
                client.send(b"x" * 10)
                print(name.strip("\0"), kind.name, len(conn.recv(100)))
        if os.path.exists(name if name[0] else "/none"):
            os.unlink(name)
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as c:
    s.bind("/tmp/datagrams")
    c.sendto(b"datagram", "/tmp/datagrams")
    print(s.recv(100).decode())
r, w = os.pipe()
socket.send_fds(a, [b"fd"], [w])
_, fds, _, _ = socket.recv_fds(b, 10, 1)
os.write(fds[0], b"through")
print(os.read(r, 10).decode())
