# 300 attempts from ten threads: IPv4, IPv6, mapped addresses, UDP by sendto and
# by sendmsg. Prints how many were made.
import socket, threading

tried = []

def attempt(f, *args):
    try:
        f(*args)
    except OSError:
        pass
    tried.append(1)

def stream(family, to):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        attempt(s.connect, to)

def work():
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    v = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for i in range(6):
        stream(socket.AF_INET, ("192.0.2.1", 1 + i))
        stream(socket.AF_INET6, ("2001:db8::1", 1 + i))
        stream(socket.AF_INET6, ("::ffff:192.0.2.1", 1 + i))
        attempt(u.sendto, b"x", ("192.0.2.2", 53))
        s, to = ((u, ("192.0.2.3", 53)), (v, ("2001:db8::3", 53)))[i % 2]
        attempt(s.sendmsg, [b"x"], [], 0, to)

threads = [threading.Thread(target=work) for _ in range(10)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(tried))
