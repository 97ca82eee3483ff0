# B64: 100 calls at once, of which 50 are to run; argument: how many.
import sys, threading
from rpc import *

n = int(sys.argv[1])
ids = ["c%d" % i for i in range(n)]
for id in ids:
    put(id, request("count", {}))
ok, over = 0, 0
for id in ids:
    a = answer(id, 60)
    if a["status"] == "ok":
        ok += 1
    elif a["code"] in ("tool_call_limit", "too_many_pending"):
        over += 1
    else:
        raise SystemExit(repr(a))
print(ok, over)
