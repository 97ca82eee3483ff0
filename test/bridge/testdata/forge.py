# B61, B62, C18: answers cannot be made, changed or removed from inside.
import os
from rpc import *


def fails(what, f):
    try:
        f()
    except OSError:
        return
    raise SystemExit("could " + what)


a = call("echo", {"value": 7}, "mine")
path = RESP + "/resp_mine.json"
fails("make an answer", lambda: open(RESP + "/resp_next.json", "w"))
fails("make a link as an answer", lambda: os.symlink("/etc/passwd", RESP + "/resp_next.json"))
fails("mark an answer as done", lambda: open(RESP + "/resp_next.done", "w"))
fails("make a directory there", lambda: os.mkdir(RESP + "/resp_next.json"))
fails("change an answer", lambda: open(path, "r+"))
fails("cut an answer", lambda: os.truncate(path, 0))
fails("remove an answer", lambda: os.remove(path))
fails("rename an answer", lambda: os.rename(path, RESP + "/x"))
fails("link an answer", lambda: os.link(path, RESP + "/y"))
fails("change its mode", lambda: os.chmod(path, 0o777))
fails("change the modules", lambda: open(HERE + "/sdk/python/isolate_tools/__init__.py", "a"))
fails("remove the requests' directory", lambda: os.rmdir(REQ))
fails("rename the requests' directory", lambda: os.rename(REQ, HERE + "/other"))
fails("rename the answers' directory", lambda: os.rename(RESP, HERE + "/other"))
fails("remove the bridge", lambda: os.rmdir(HERE))
fails("rename the bridge", lambda: os.rename(HERE, "/workspace/other"))
fails("swap the bridge for a link", lambda: os.symlink("/tmp", HERE))
works()
# flat: everything there is the program's; a host file is never touched, and
# only the call whose answer is in the way may fail
os.symlink("/etc/passwd", HERE + "/resp_flat1.json")
os.mkdir(HERE + "/resp_flat2.json", 0o500)
open(HERE + "/resp_flat3.done", "w").close()
for id in ["flat1", "flat2", "flat3", "flat4"]:
    put(id, request("echo", {"value": id}), HERE)
    a = answer(id)  # the one in resp is always right
    assert a["status"] == "ok" and a["result"] == id, a
a = answer("flat4", where=HERE)
assert a["result"] == "flat4", a
assert open("/etc/passwd").read().startswith("root:"), "changed"
works()
# C23: once is once
put("again", request("count", {}))
assert answer("again")["result"] >= 1
before = call("count", {})["result"]
put("again", request("count", {}))
time.sleep(0.3)
put("again", request("count", {}), HERE)
time.sleep(0.3)
assert call("count", {})["result"] == before + 1, "served twice"
print("ok")
