# B56, C21 (libkrun#329): names that are no request's are left alone.
import os
from rpc import *

bad = ["", "x" * 65, "x" * 200, "%2e%2e", "a.b", "a b", "a\nb", "а", "-a", "_a", ".done", "..", "a\x7f", "é"]
for id in bad:
    with open("%s/req_%s.json" % (REQ, id), "wb") as f:
        f.write(request("echo", {"value": 1}))
for name in ["req_a", "REQ_a.json", "req_b.JSON", "resp_a.json", "req_a.json.tmp", "other"]:
    open("%s/%s" % (REQ, name), "w").close()
for id in ["A", "a", "x" * 64, "0", "a-_9"]:  # twins in case are two
    a = call("echo", {"value": id}, id)
    assert a["status"] == "ok" and a["result"] == id, a
for id in bad:
    assert not os.path.exists("%s/resp_%s.json" % (RESP, id)), id
works()
# the id within must be the name's
put("one", request("echo", {"value": 1}, id="two"))
expect("one", "another id within", "bad_request")
put("three", request("echo", {"value": 1}, id="three"))
assert answer("three")["status"] == "ok"
print("ok")
