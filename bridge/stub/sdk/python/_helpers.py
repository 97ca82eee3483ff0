"""map and search_tools."""
import _thread

# Threads or tasks of one map; the host serves fewer at a time.
WIDTH = 32


def map(function, items, *, parallel=WIDTH):
    """Call function for each item in parallel; give the results in order.

    For a tool each item is a dict of its arguments. If calls fail, the error of
    the first item that failed is raised; items not begun by then are left out.
    """
    items = list(items)
    results = [None] * len(items)
    errors = {}
    state = {"next": 0, "running": 0}
    lock = _thread.allocate_lock()
    done = _thread.allocate_lock()
    done.acquire()

    def work():
        while True:
            with lock:
                at = state["next"]
                if at >= len(items) or errors:
                    state["running"] -= 1
                    if state["running"] == 0:
                        done.release()
                    return
                state["next"] += 1
            try:
                results[at] = apply(function, items[at])
            except BaseException as err:
                with lock:
                    errors[at] = err

    state["running"] = 1  # this thread
    for _ in range(min(parallel, len(items)) - 1):
        with lock:
            state["running"] += 1
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:  # no more threads here: fewer will do
            with lock:
                state["running"] -= 1
            break
    work()
    done.acquire()
    if errors:
        raise errors[min(errors)]
    return results


def apply(function, item):
    """function(item), or function(**item) for a tool."""
    return function(**item) if hasattr(function, "tool") else function(item)


async def amap(function, items, *, parallel=WIDTH):
    """Like map, for a coroutine function; at most parallel run at a time."""
    import asyncio

    gate = asyncio.Semaphore(parallel)

    async def one(item):
        async with gate:
            return await apply(function, item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def search_tools(text=""):
    """One line, a signature and what it is for, of each tool that fits all words."""
    from ._index import TOOLS

    words = text.lower().split()
    return [line for line, about in TOOLS if all(word in about for word in words)]


def missing(name, known, frame):
    """The error for a name that is not there: an import gets one that says what
    there is, which Python would replace if it were an AttributeError."""
    from difflib import get_close_matches
    from opcode import opmap

    if name.startswith("__"):
        return AttributeError(name)
    near = get_close_matches(name, known, 1)
    text = "there is no tool %r" % name
    if near:
        text += "; did you mean %r?" % near[0]
    else:
        text += "; search_tools() lists them"
    code, at = frame.f_code.co_code, frame.f_lasti
    if 0 <= at < len(code) and code[at] == opmap["IMPORT_FROM"]:
        return ImportError(text, name=name)
    return AttributeError(text)
