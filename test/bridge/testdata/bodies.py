# B57, B58, B59, C21: sizes and bodies.
import time
from rpc import *

MiB = 1 << 20
good = request("echo", {"value": "x"})
deep = b'{"tool":"echo","args":{"value":' + b"[" * 10000 + b"]" * 10000 + b"}}"
cases = {
    "empty": (b"", "bad_json"),
    "one": (b"{", "bad_json"),
    "list": (b"[]", "bad_request"),
    "number": (b"1", "bad_request"),
    "string": (b'"x"', "bad_request"),
    "null": (b"null", "bad_request"),
    "twice": (b'{"tool":"echo","tool":"boom","args":{}}', "bad_json", "bad_request"),
    "twice-within": (b'{"tool":"echo","args":{"value":1,"value":2}}', "bad_json", "bad_request"),
    "case": (b'{"Tool":"echo","args":{"value":1}}', "bad_request"),
    "more": (b'{"tool":"echo","args":{"value":1},"x":1}', "bad_request"),
    "tool-list": (b'{"tool":["echo"],"args":{}}', "bad_request"),
    "args-list": (b'{"tool":"echo","args":[]}', "bad_request"),
    "args-string": (b'{"tool":"echo","args":"{}"}', "bad_request"),
    "nan": (b'{"tool":"echo","args":{"value":NaN}}', "bad_json"),
    "infinite": (b'{"tool":"echo","args":{"value":Infinity}}', "bad_json"),
    "utf8": (b'{"tool":"echo","args":{"value":"\xff\xfe"}}', "bad_json"),
    "bom": (b"\xef\xbb\xbf" + good, "bad_json"),
    "surrogate": (b'{"tool":"echo","args":{"value":"\\ud800"}}', "bad_json"),
    "trailing": (good + b"x", "bad_json"),
    "two": (good + good, "bad_json"),
    "deep": (deep, "bad_json", "bad_request"),
    "keys": (b'{"tool":"echo","args":{' + b",".join(b'"k%d":1' % i for i in range(60000)) + b"}}", "bad_json", "bad_request"),
    "unknown": (request("nothing", {}), "unknown_tool"),
    "long-key": (b'{"tool":"echo","args":{"' + b"k" * 300 + b'":1}}', "bad_json", "bad_request"),
    "over": (good[:-3] + b"x" * (MiB + 1 - len(good)) + good[-3:], "request_too_large"),
}
for name, (body, *codes) in cases.items():
    put(name, body)
    took = expect(name, name, *codes)
    assert took < 20.0, "%s took %.3f s" % (name, took)
works()
for name, size in {"under": MiB - 1, "cap": MiB}.items():
    put(name, good[:-3] + b"x" * (size - len(good)) + good[-3:])
    a = answer(name)
    assert a["status"] == "ok" and len(a["result"]) == size - len(good) + 1, (name, str(a)[:100])
# C7, C9: values come back as they are, or with a named error
for text in ["null", "true", "0", "-0.0", "9223372036854775808", "1e308", "[[],[{}]]", "{}", '"a\\u0000b"', "1.10", "123456789012345678901234567890"]:
    id = new_id()
    put(id, b'{"tool":"echo","args":{"value":' + text.encode() + b"}}")
    raw = None
    a = answer(id)
    assert a["status"] == "ok", a
    with open("%s/resp_%s.json" % (RESP, id)) as f:
        assert '"result":%s}' % text in f.read().replace(" ", ""), text
works()
print("ok")
