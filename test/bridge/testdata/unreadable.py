# C19: a program that takes away its own directories' rights, or moves files
# about, ends at most its own calls.
import os
from rpc import *

os.chmod(REQ, 0)
try:
    put("x1", request("echo", {"value": 1}))
except OSError:
    pass
os.chmod(REQ, 0o700)
works()
os.chmod(HERE, 0)
os.chmod(HERE, 0o755)
works()
os.mkdir(HERE + "/d")
for i in range(200):
    os.rename(HERE + "/d", HERE + "/e")
    os.rename(HERE + "/e", HERE + "/d")
    # a directory under a request's name, moved away and back
    os.mkdir(HERE + "/d/sub")
    try:
        os.rename(HERE + "/d/sub", REQ + "/req_dir%d.json" % i)
        os.rename(REQ + "/req_dir%d.json" % i, HERE + "/d/back")
        os.rmdir(HERE + "/d/back")
    except OSError:
        pass
    try:
        os.rmdir(HERE + "/d/sub")
    except OSError:
        pass
works()
print("ok")
