# Datagrams over the loopback interface: with an address, and connected.
import socket

for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    with socket.socket(family, socket.SOCK_DGRAM) as a, socket.socket(family, socket.SOCK_DGRAM) as b:
        a.settimeout(60), b.settimeout(60)
        a.bind((host, 0)), b.bind((host, 0))
        b.sendto(b"ping", a.getsockname())
        got, sender = a.recvfrom(100)
        a.connect(sender)
        a.send(got + b" pong")
        print(host, b.recv(100).decode())
