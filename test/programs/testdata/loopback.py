# A6, isolate#106, microsandbox#452: a TCP server and its client on both
# loopback addresses, by hand and by http.server; UDP, too.
import http.server
import socket
import threading
import urllib.request

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((address, 0), family=family)

    def serve():
        c, _ = server.accept()
        with c:
            c.sendall(c.recv(100).upper())

    threading.Thread(target=serve).start()
    with socket.create_connection(server.getsockname()[:2], timeout=60) as c:
        c.sendall(b"tcp")
        print(address, c.recv(100).decode())
    server.close()

    a, b = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    a.bind((address, 0))
    b.sendto(b"UDP", a.getsockname())
    a.settimeout(60)
    data, back = a.recvfrom(100)
    a.sendto(data, (address, back[1]))
    b.settimeout(60)
    print(address, b.recv(100).decode())


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"HTTP")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("localhost", 8080), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("localhost:8080", urllib.request.urlopen("http://localhost:8080/", timeout=60).read().decode())
