# B51, B52, B53, C17 (sandlock#112, CVE-2026-39861, endara#156, virtiofsd
# CVE-2020-35517): what is not a file of its own is refused at once, unread.
import os, socket
from rpc import *

os.chdir(REQ)
put("honest", request("echo", {"value": 1}))
answer("honest")


def link(to):
    return lambda name: os.symlink(to, name)


def hard(name):
    with open("/workspace/own", "wb") as f:
        f.write(request("echo", {"value": 1}))
    with open(REQ + "/.tmp-hard", "wb") as f:
        f.write(request("echo", {"value": 1}))
    os.link(REQ + "/.tmp-hard", name)


def sock(name):
    s = socket.socket(socket.AF_UNIX)
    s.bind(name)


def sparse(name):
    with open(".tmp-sparse", "wb") as f:
        f.truncate(20 << 20)
    os.rename(".tmp-sparse", name)


kinds = [
    ("link-passwd", link("/etc/passwd"), "not_regular"),
    ("link-environ", link("/proc/self/environ"), "not_regular"),
    ("link-mem", link("/proc/1/root/etc/passwd"), "not_regular"),
    ("link-request", link(".tmp-other"), "not_regular"),
    ("link-nowhere", link("nowhere"), "not_regular"),
    ("hard", hard, "not_regular"),
    ("fifo", os.mkfifo, "not_regular"),
    ("directory", os.mkdir, "not_regular"),
    ("socket", sock, "not_regular"),
    ("sparse", sparse, "request_too_large"),
]
for name, make, code in kinds:
    id = "kind-" + name
    make("req_%s.json" % id)
    took = expect(id, name, code)
    # 50 ms is the promise; the rest is for a machine under load
    assert took < 20.0, "%s took %.3f s" % (name, took)
    works()
try:
    os.mknod("req_device.json", 0o600 | 0o020000, os.makedev(1, 5))
    raise SystemExit("a device was made")
except OSError:
    pass
os.mkdir(".tmp-full")
open(".tmp-full/x", "w").close()
os.rename(".tmp-full", "req_full.json")
expect("full", "a directory that is not empty", "not_regular")
works()
print("ok")
