"""Sums the invoices of the EU: what a model might write over two tools.

It also tries to open a URL, by default that of a server on this machine. There
is no network, so that fails at once, while the tools go on working.
"""
import sys
import time
import urllib.error
import urllib.request

from isolate_tools import get_invoice, list_invoices

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/"
began = time.monotonic()
try:
    urllib.request.urlopen(url, timeout=10)
    print("the URL was opened")
except urllib.error.URLError as error:
    print("no network:", error.reason)
print(f"URL tried for {time.monotonic() - began:.3f} s", file=sys.stderr)

total = 0
for id in list_invoices():
    invoice = get_invoice(id=id)
    if invoice["region"] == "EU":
        total += invoice["total"]
print("RESULT:", total)
