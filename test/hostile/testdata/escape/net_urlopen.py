# A1 A7 B1: urlopen to the outside, to the host's loopback and by name; source: the contrast proof of the first report
import sys
import time
import urllib.error
import urllib.request

port = sys.argv[1]


def attempt(what, url):
    """Prints the cause, and whether the fastest of five attempts took less than 0.2 s."""
    best = 99.0
    for _ in range(5):
        start = time.monotonic()
        try:
            urllib.request.urlopen(url, timeout=5)
            cause = "ok"
        except urllib.error.URLError as e:
            cause = e.reason.strerror
        best = min(best, time.monotonic() - start)
    print(f"{what}: {cause}")
    print(f"{what}, in less than 0.2 s: {'yes' if best < 0.2 else best}")


attempt("http outside", f"http://192.0.2.1:{port}/")
attempt("https outside", f"https://192.0.2.1:{port}/")
attempt("http metadata service", "http://169.254.169.254/")
attempt("http host loopback", f"http://127.0.0.1:{port}/")
attempt("http by name", "http://outside.example/")
# what was handed in can still be read: isolation is not a dead network stack
print("given file:", open("/workspace/given.txt").read().strip())
