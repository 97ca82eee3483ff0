# As calls.py, through the Unix socket: MCP, a message a line.
import json, os, socket, sys, time

s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["ISOLATE_MCP_SOCKET"])
f = s.makefile("rwb", buffering=0)
lines = s.makefile("rb")
number = 0


def ask(method, params):
    global number
    number += 1
    f.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
    while True:
        answer = json.loads(lines.readline())
        if answer.get("id") == number:
            return answer["result"]


ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}})
f.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        begin = time.perf_counter_ns()
        if ask("tools/call", {"name": "noop", "arguments": {"n": 1}}).get("isError"):
            sys.exit("the tool failed")
        took.append(time.perf_counter_ns() - begin)
    print(json.dumps(took), flush=True)
