# B69, C22: a full workspace, a full bridge and no inodes left are errors of
# calls, and pass.
import os
from rpc import *


def fill(path, size=1 << 20):
    written = 0
    with open(path, "wb", buffering=0) as f:
        try:
            while written < (64 << 20):
                written += f.write(b"x" * size)
        except OSError as e:
            assert e.errno == 28, e
    return written


fill("/workspace/all")
works()  # the bridge has room of its own
os.remove("/workspace/all")

# the bridge's own file system, to the last byte: a request that is there is
# still answered, with an error at least
fill(HERE + "/all")
fill(HERE + "/rest", 1)
with open(REQ + "/.tmp-empty", "wb"):
    pass
try:
    put("full1", request("echo", {"value": 1}))
    a = answer("full1")
    assert a is not None, "no answer when full"
    assert a["status"] == "ok" or a["code"] == "no_space", a
except OSError as e:
    assert e.errno == 28, e
# this one costs no block of ours: it is refused as empty, and must be told
os.rename(REQ + "/.tmp-empty", REQ + "/req_full2.json")
expect("full2", "empty request when full", "bad_json", "no_space")
os.remove(HERE + "/all")
os.remove(HERE + "/rest")
works()

n = 0
try:
    for n in range(20000):
        open(HERE + "/i%d" % n, "w").close()
except OSError as e:
    assert e.errno == 28, e
for i in range(0, n):
    if i < 8:
        continue
    os.remove(HERE + "/i%d" % i)
works()
print("ok")
