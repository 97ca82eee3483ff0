"""Sums the invoices of the EU, which it reads through an MCP server of files.

    isolate run main.py DIR --mcp 'files=mcp-server-filesystem DIR'

DIR is absolute. The server, @modelcontextprotocol/server-filesystem of npm, runs
on the host; the program has no network and does not see the directory.
"""
import json
import os
import sys

from isolate_tools.files import list_directory, read_text_file

directory = sys.argv[1]
assert not os.path.exists(directory)

total = 0
for line in list_directory(path=directory)["content"].splitlines():
    name = line.removeprefix("[FILE] ")
    invoice = json.loads(read_text_file(path=f"{directory}/{name}")["content"])
    if invoice["region"] == "EU":
        total += invoice["total"]
print("RESULT:", total)
