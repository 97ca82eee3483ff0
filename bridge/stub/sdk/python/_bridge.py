"""Requests out, answers in: the program's end of the bridge.

One _Answers per process reads the directory of answers for all threads and
event loops. Only what a first call needs is imported, and only then.
"""
import _thread
import errno
import os
import sys
import time

from .errors import (
    CLASSES,
    BridgeClosed,
    ToolError,
    ToolInvalidArguments,
    ToolLimit,
    ToolTimeout,
    _tool,  # for generated modules
)

DIR = os.environ.get("ISOLATE_BRIDGE") or "/workspace/_rpc"
# A small request is the text of a symbolic link that nobody follows: one system
# call, and the host is woken once.
TEXTS = DIR + "/req/.text"
TEXT_MAX = 4095
# Where others are written. Nobody watches there.
PARTIAL = DIR + "/req/.tmp-new"

# An answer whose event was missed is found after this many seconds.
LOOK_AGAIN = 1.0
# A thread that waits for another to read asks after it this often, in seconds.
LEADERLESS = 5.0
# Without inotify: seconds between two looks, from first to last.
FIRST_PAUSE, LAST_PAUSE = 0.001, 0.020
# Read answers that one request reports; bounds the size of a request.
MAX_ACKS = 100


class _Unset:
    """Stands for an argument that is not given, and so is not sent."""

    __slots__ = ()

    def __repr__(self):
        return "unset"

    def __bool__(self):
        return False

    def __reduce__(self):
        return "unset"


unset = _Unset()


def call(tool, args=None, *, timeout=None):
    """Call a tool by its own name, with its arguments in a dict.

    timeout is how many seconds to wait; None leaves it to the host, which has
    a limit for each tool.
    """
    try:
        return _do(tool, args, timeout)
    except ToolError as err:
        raise err.with_traceback(None)  # one line of a trace is enough


def _do(tool, args, timeout):
    waiter = _Thread()
    answers = _answers
    answers.add(waiter)
    try:
        _send(waiter.id, tool, args)
        answers.wait(waiter, None if timeout is None else time.monotonic() + timeout, tool)
    finally:
        answers.remove(waiter)
    return _receive(waiter.id, tool)


async def acall(tool, args=None, *, timeout=None):
    """Like call, from a coroutine of asyncio."""
    try:
        return await _ado(tool, args, timeout)
    except ToolError as err:
        raise err.with_traceback(None)


async def _ado(tool, args, timeout):
    import asyncio

    waiter = _Task(asyncio.get_running_loop())
    answers = _answers
    answers.add(waiter)
    try:
        _send(waiter.id, tool, args)
        waiting = answers.wait_async(waiter)
        try:
            await (waiting if timeout is None else asyncio.wait_for(waiting, timeout))
        except asyncio.TimeoutError:
            raise _late(tool) from None
    finally:
        answers.remove(waiter)
    return _receive(waiter.id, tool)


# For generated functions: optional are the arguments that have defaults.


def _call(tool, args, optional, known):
    return _do(tool, _merge(args, optional, known), None)


async def _acall(tool, args, optional, known):
    return await _ado(tool, _merge(args, optional, known), None)


def _merge(args, optional, known):
    for name, value in optional.items():
        # the very object that is the default was not given
        if value is not unset and value is not known[name]:
            args[name] = value
    return args


def _late(tool):
    return ToolTimeout("wait_timeout", "no answer came in the time the program gave", None, tool)


# Ids of answers that were read and that the host may remove.
_acks = []


_encode = _decode = None  # of JSON; made for the first call


def _codec():
    global _encode, _decode
    import json

    _encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    _decode = json.JSONDecoder().decode


def _send(ident, tool, args):
    if args is not None and not isinstance(args, dict):
        text = "the arguments are a dict of their names and values, not a %s" % type(args).__name__
        raise ToolInvalidArguments("invalid_arguments", text, None, tool)
    if _encode is None:
        _codec()
    acks = _take_acks()
    request = {"tool": tool, "args": {} if args is None else args}
    if acks:
        request["ack"] = acks
    try:
        body = _encode(request).encode()
    except (TypeError, ValueError, RecursionError) as err:
        _acks.extend(acks)
        text = "the arguments cannot be written as JSON: %s" % err
        raise ToolInvalidArguments("invalid_arguments", text, None, tool) from None
    if len(body) <= TEXT_MAX:
        try:
            return os.symlink(body, "%s/req_%s.json" % (TEXTS, ident))
        except OSError:
            pass  # what is wrong is the same for a file
    partial = "%s/%s" % (PARTIAL, ident)
    try:
        fd = _create(partial)
        try:
            while body:
                body = body[os.write(fd, body):]
        finally:
            os.close(fd)
        os.rename(partial, "%s/req/req_%s.json" % (DIR, ident))
    except OSError as err:
        _acks.extend(acks)
        try:
            os.unlink(partial)
        except OSError:
            pass
        if err.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ToolLimit("no_space", "there is no space for the request", None, tool) from None
        raise BridgeClosed("closed", "the bridge takes no requests: %s" % err.strerror, None, tool) from None


def _create(partial):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(partial, flags, 0o600)
    except FileNotFoundError:
        pass  # the first request of this sandbox
    try:
        os.mkdir(PARTIAL, 0o700)
    except FileExistsError:
        pass  # another was quicker
    return os.open(partial, flags, 0o600)


def _take_acks():
    taken = []
    try:
        while _acks and len(taken) < MAX_ACKS:
            taken.append(_acks.pop())
    except IndexError:
        pass  # another thread took it
    return taken


def _receive(ident, tool):
    try:
        answer = _decode(_read("%s/resp/resp_%s.json" % (DIR, ident)))
    except (OSError, ValueError) as err:
        raise BridgeClosed("closed", "the answer cannot be read: %s" % err, None, tool) from None
    if answer.get("id") != ident:
        raise BridgeClosed("closed", "the answer is not to this call", None, tool)
    _acks.append(ident)
    if answer.get("status") == "ok":
        return answer.get("result")
    kind = CLASSES.get(answer.get("class"), ToolError)
    raise kind(answer.get("code", ""), answer.get("error", ""), answer.get("details"), tool)


def _read(path):
    """An answer: the text of a link, or a file."""
    try:
        return os.readlink(path.encode()).decode()
    except OSError as err:
        if err.errno != errno.EINVAL:
            raise
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = part = os.read(fd, 16384)
        if len(part) == 16384:
            parts = [part]
            while part:
                part = os.read(fd, 1 << 20)
                parts.append(part)
            data = b"".join(parts)
        return data.decode()
    finally:
        os.close(fd)


class _Thread:
    """A thread that waits for one answer."""

    __slots__ = ("id", "mark", "done", "polls", "thread", "gate")

    def __init__(self):
        self.id = os.urandom(16).hex()
        self.mark = b"resp_%s.json" % self.id.encode()
        self.done = False
        self.polls = False  # is, or was before a signal handler, in poll
        self.thread = _thread.get_ident()
        self.gate = _thread.allocate_lock()
        self.gate.acquire()

    def finish(self):
        self.done = True
        self.kick()

    def kick(self):
        try:
            self.gate.release()
        except RuntimeError:
            pass  # was open


class _Task:
    """A coroutine that waits for one answer."""

    __slots__ = ("id", "done", "polls", "loop", "future")

    def __init__(self, loop):
        self.id = os.urandom(16).hex()
        self.done = False
        self.polls = False
        self.loop = loop
        self.future = loop.create_future()

    def finish(self):
        self.done = True
        try:
            self.loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    def _resolve(self):
        if not self.future.done():
            self.future.set_result(None)


class _Answers:
    """Who waits for which answer, and the one inotify that tells.

    Of the waiting threads one leads: it polls, and wakes the others when their
    answers come. When it leaves, another leads. Event loops watch the same
    descriptor; whoever reads an event passes it on.
    """

    def __init__(self):
        # may be taken again by a signal handler of the same thread
        self.lock = _thread.RLock()
        self.waiting = {}
        self.loops = {}
        self.leader = None
        self.opened = False
        self.inotify = -1
        self.wake = (-1, -1)
        self.poll = None  # one that nobody uses now

    def add(self, waiter):
        with self.lock:
            self.waiting[waiter.id] = waiter

    def remove(self, waiter):
        with self.lock:
            self.waiting.pop(waiter.id, None)
            if self.leader is None:
                self._appoint()

    def _appoint(self):
        """Wake a thread that waits, so that it leads."""
        for waiter in self.waiting.values():
            if isinstance(waiter, _Thread) and not waiter.done:
                waiter.kick()
                return

    def open(self):
        """Watch the directory of answers. What came before is not reported."""
        with self.lock:
            if self.opened:
                return
            self.opened = True  # now, for a signal handler in the middle
            try:
                self.wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
                self.inotify = _inotify(DIR + "/resp")
            except OSError:
                pass  # no descriptor left: wait without

    def close(self):
        """Forget everything; for a child process after fork."""
        for fd in (self.inotify,) + self.wake:
            if fd >= 0:
                os.close(fd)

    def wait(self, waiter, deadline, tool):
        if not self.opened:
            self.open()
            self.look()
        while not waiter.done:
            lead = False
            try:
                with self.lock:
                    before = self.leader
                    if before is not None and before.id not in self.waiting:
                        before = None  # it died on its way out
                    if before is None or before.thread == waiter.thread:
                        lead, self.leader = True, waiter
                if lead:
                    self._lead(waiter, deadline)
                else:
                    # It is woken for its answer or to lead.
                    left = LEADERLESS if deadline is None else min(LEADERLESS, deadline - time.monotonic())
                    waiter.gate.acquire(True, max(0, left))
            finally:
                if lead:
                    self.leader = before
            if not waiter.done and deadline is not None and time.monotonic() >= deadline:
                raise _late(tool)

    def _lead(self, waiter, deadline):
        if self.inotify < 0:
            return self._lead_slowly(waiter, deadline)
        poll, self.poll = self.poll, None  # a signal handler makes its own
        if poll is None:
            import select

            poll = select.poll()
            poll.register(self.inotify, select.POLLIN)
            poll.register(self.wake[0], select.POLLIN)
        waiter.polls = True
        try:
            self._poll(poll, waiter, deadline)
        finally:
            self.poll = poll

    def _poll(self, poll, waiter, deadline):
        while not waiter.done:
            left = LOOK_AGAIN if deadline is None else min(LOOK_AGAIN, deadline - time.monotonic())
            if left <= 0:
                return
            ready = poll.poll(left * 1000)
            if not ready:
                self.look()
            for fd, _ in ready:
                if fd == self.inotify:
                    self.read(waiter)
                else:
                    self._drain(fd)

    def _lead_slowly(self, waiter, deadline):
        pause = FIRST_PAUSE
        while not waiter.done and (deadline is None or time.monotonic() < deadline):
            time.sleep(pause)
            pause = min(pause * 1.5, LAST_PAUSE)
            self.look()

    async def wait_async(self, waiter):
        import asyncio

        if not self.opened:
            self.open()
            self.look()
        if self.inotify < 0:
            pause = FIRST_PAUSE
            while not waiter.done:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LAST_PAUSE)
                self.look()
            return
        loop = waiter.loop
        self.loops[loop] = self.loops.get(loop, 0) + 1
        if self.loops[loop] == 1:
            loop.add_reader(self.inotify, self.read)
        try:
            # A thread may have read the event already; then this returns at once.
            while not waiter.done:
                await asyncio.wait([waiter.future], timeout=LOOK_AGAIN)
                if not waiter.done:
                    self.look()
        finally:
            self.loops[loop] -= 1
            if not self.loops[loop]:
                del self.loops[loop]
                loop.remove_reader(self.inotify)

    def read(self, reader=None):
        """Pass on what inotify has to tell. reader is the waiter that does it."""
        try:
            events = os.read(self.inotify, 65536)
        except BlockingIOError:
            return  # somebody else was quicker
        if reader is not None and len(self.waiting) == 1 and reader.mark in events:
            # The usual case. Who began to wait before the event came is in
            # waiting, so it is nobody else's.
            reader.done = True
            return
        at = 0
        while at < len(events):
            mask = int.from_bytes(events[at + 4:at + 8], sys.byteorder)
            end = at + 16 + int.from_bytes(events[at + 12:at + 16], sys.byteorder)
            name = events[at + 16:end].rstrip(b"\0")
            if name.endswith(b".json"):
                self._answered(name[5:-5].decode("ascii", "replace"), reader)
            elif mask & _LOST:
                self.look()
            at = end

    def look(self):
        """Look for the answers of all who wait, whatever inotify said."""
        with self.lock:
            waiting = list(self.waiting.values())
        for waiter in waiting:
            if not waiter.done and os.path.lexists("%s/resp/resp_%s.json" % (DIR, waiter.id)):
                self._answered(waiter.id, None)
        if waiting and not os.path.isdir(DIR + "/resp"):
            for waiter in waiting:  # each then finds that it has no answer
                self._answered(waiter.id, None)

    def _answered(self, ident, reader):
        with self.lock:
            waiter = self.waiting.get(ident)
            if waiter is None or waiter.done:
                return  # of another process, or known
            waiter.finish()
        if waiter.polls and waiter is not reader:
            try:
                os.write(self.wake[1], b"x")
            except BlockingIOError:
                pass  # full of wake-ups

    def _drain(self, fd):
        try:
            os.read(fd, 4096)
        except BlockingIOError:
            pass


# IN_MOVED_TO | IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR. An answer
# is made there as a text, or moved there as a file.
_MASK = 0x80 | 0x100 | 0x400 | 0x800 | 0x01000000
# IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED | IN_DELETE_SELF
_LOST = 0x2000 | 0x4000 | 0x8000 | 0x400


def _inotify(path):
    """A descriptor that tells of new files in a directory, or -1."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(_MASK)) < 0:
            os.close(fd)
            fd = -1
        return fd
    except (ImportError, OSError, AttributeError):
        return -1


_answers = _Answers()


def _after_fork():
    global _answers
    old, _answers = _answers, _Answers()
    old.close()
    del _acks[:]


os.register_at_fork(after_in_child=_after_fork)
