#!/usr/bin/env python3
"""Gives one invoice, or says why not: exit code 11 means that the arguments are wrong."""
import json
import pathlib
import sys

wanted = json.load(sys.stdin)["id"]
invoices = json.loads((pathlib.Path(__file__).parents[1] / "invoices.json").read_text())
for invoice in invoices:
    if invoice["id"] == wanted:
        print(json.dumps(invoice))
        break
else:
    print(json.dumps({"error": {"code": "no_such_invoice", "message": f"there is no invoice {wanted!r}"}}))
    sys.exit(11)
