# B63, C21 (grafel#6921): a flood of requests and junk overflows every queue;
# the valid ones are all answered, the budget holds.
import os
from rpc import *

total = 20000
made = 0
for i in range(total):
    while True:
        try:
            put("f%d" % i, request("count", {}))
            made += 1
            break
        except OSError as e:
            assert e.errno == 28, e
            time.sleep(0.01)
for i in range(5000):  # junk, made and removed
    try:
        open(REQ + "/junk%d" % i, "w").close()
        os.remove(REQ + "/junk%d" % i)
    except OSError:
        pass
end = time.monotonic() + 60
while any(n.startswith("req_") for n in os.listdir(REQ)) and time.monotonic() < end:
    time.sleep(0.05)
print("left", [n for n in os.listdir(REQ) if n.startswith("req_")][:3])
