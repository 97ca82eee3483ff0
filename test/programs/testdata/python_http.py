# A test server and urllib on the loopback interface, and an address of another name.
import http.server, threading, urllib.request


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"path " + self.path.encode())

    def log_message(self, *args):
        pass


with http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Answer) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for host in "127.0.0.1", "localhost":
        print(urllib.request.urlopen(f"http://{host}:8080/{host}", timeout=60).read().decode())
    server.shutdown()
