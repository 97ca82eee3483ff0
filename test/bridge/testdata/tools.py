# B66, C13: tools that hang, crash, flood and lie are errors of their calls.
from rpc import *

a = call("boom", {})
assert a["status"] == "error" and a["class"] == "failed", a
assert "secret" not in json.dumps(a) and "goroutine" not in json.dumps(a), a
a = call("wrong", {})
assert a["class"] == "failed" and "/root/secret" not in json.dumps(a), a
begin = time.monotonic()
a = call("sleep", {"ms": 60000})
assert a["class"] == "timeout", a
assert time.monotonic() - begin < 50, "the time limit came late"
a = call("bytes", {"n": 1000})
assert len(a["result"]) == 1000, a
a = call("bytes", {"n": 1 << 20})
assert len(a["result"]) == 1 << 20
a = call("bytes", {"n": 50 << 20}, patience=60)  # C15: whole, as a file, or refused; never cut
assert a["status"] == "error" and a["code"] == "result_too_large", str(a)[:300]
if a.get("details"):
    assert os.path.getsize(a["details"]["path"]) == (50 << 20) + 2, a
a = call("utf8", {})
assert a["status"] == "error" and a["code"] == "bad_result", a
a = call("denied", {})
assert a["class"] == "denied", a
works()
print("ok")
