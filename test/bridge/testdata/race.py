# B54 (docker cp CVEs), B58: names and bytes of requests change while they are
# read; what ran is what was recorded. Argument: seconds.
import sys, threading
from rpc import *

end = time.monotonic() + float(sys.argv[1])
benign = request("echo", {"value": "benign"})
evil = request("echo", {"value": "evil--"})
stop = False
name = [None]


def swap():
    with open(REQ + "/.tmp-evil", "wb") as f:
        f.write(evil)
    while not stop:
        id = name[0]
        if id is None:
            continue
        path = "%s/req_%s.json" % (REQ, id)
        try:
            fd = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            for body in (evil, benign, evil[:10]):
                os.pwrite(fd, body, 0)
            os.ftruncate(fd, 5)
            os.pwrite(fd, evil, 0)
            os.rename(REQ + "/.tmp-evil", path)
        except OSError:
            pass
        os.close(fd)
        with open(REQ + "/.tmp-evil", "wb") as f:
            f.write(evil)


t = threading.Thread(target=swap)
t.start()
n = 0
while time.monotonic() < end:
    id = new_id()
    put(id, benign)
    name[0] = id
    a = answer(id, 20)
    assert a is not None, "no answer"
    n += 1
stop = True
t.join()
works()
print("ok", n)
