# The protocol of the bridge by hand, without the generated module.
import json, os, time

HERE = "/workspace/_rpc"
REQ = HERE + "/req"
RESP = HERE + "/resp"
count = 0


def new_id():
    global count
    count += 1
    return "p%d-%d" % (os.getpid(), count)


def put(id, body, where=REQ):
    temp = "%s/.tmp-%s" % (where, id)
    with open(temp, "wb") as f:
        f.write(body)
    os.rename(temp, "%s/req_%s.json" % (where, id))


def request(tool, args, **more):
    return json.dumps(dict(more, tool=tool, args=args)).encode()


def answer(id, patience=60.0, where=RESP):
    """The answer as an object, or None if there is none in time."""
    end = time.monotonic() + patience
    while not os.path.exists("%s/resp_%s.done" % (where, id)):
        if time.monotonic() > end:
            return None
        time.sleep(0.001)
    with open("%s/resp_%s.json" % (where, id), "rb") as f:
        return json.loads(f.read())


def call(tool, args, id=None, patience=60.0):
    id = id or new_id()
    put(id, request(tool, args), REQ)
    return answer(id, patience)


def works():
    """The bridge still serves an honest call."""
    a = call("echo", {"value": 42})
    assert a is not None, "no answer to an honest call"
    assert a["status"] == "ok" and a["result"] == 42, a


def expect(id, what, *codes, patience=60.0):
    begin = time.monotonic()
    a = answer(id, patience)
    assert a is not None, "%s: no answer" % what
    assert a["status"] == "error" and a["code"] in codes, "%s: %r, want %r" % (what, a, codes)
    assert a["id"] == id, a
    return time.monotonic() - begin
