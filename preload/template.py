# What the interpreter of a cell runs that is started before its programs:
# imports, then waits in the code of container/keeper, which forks. What comes
# back from there is a fork inside a new sandbox, about to become a program.
# docs/preload.md says what such a program finds otherwise than usual.
import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # of this file; a program has its own

import atexit
import ctypes
import gc
import io
import os

# the interpreter's own, there without an import
from _frozen_importlib import BuiltinImporter
from _frozen_importlib_external import SourceFileLoader, SourcelessFileLoader

SOCKET, IMAGE = 3, 5  # as container/template.go places them


def load(entry):
    """Map the far side's code and return two functions: one that runs it and
    returns in forks, and libc's exit."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = os.fstat(IMAGE).st_size
    code = libc.mmap(None, size, 1 | 4, 2, IMAGE, 0)  # readable, executable, private
    if code in (None, ctypes.c_void_p(-1).value):
        raise SystemExit("the far side's code cannot be mapped")
    os.close(IMAGE)
    serve = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(code + entry)
    # struct warm of keeper.h: fork, text, length, buffer, message, big
    warm = (ctypes.c_uint64 * 6)(ctypes.cast(libc.fork, ctypes.c_void_p).value)

    def fork():
        ctypes.pythonapi.PyOS_BeforeFork()
        serve(ctypes.addressof(warm))
        ctypes.pythonapi.PyOS_AfterFork_Child()
        _, text, length, buffer, message, big = warm
        text = ctypes.string_at(text, length)
        if big:
            libc.munmap(message, big)
        libc.munmap(buffer, 2 * (192 << 10))  # MSG_CAP
        libc.munmap(code, size)
        return text

    for f in ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Child:
        f.restype = None
    return fork, libc.exit


def settle():
    """Refuse what a fork would lose, or would share with other sandboxes."""
    # libraries end their threads before a fork, if they can do with fewer
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit("a module leaves %d threads running, which no fork would have" % (threads - 1))
    for fd in os.listdir("/proc/self/fd"):
        try:
            to = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            continue  # of the listing itself
        if int(fd) > SOCKET:
            raise SystemExit("a module keeps descriptor %s open (%s), which no program may have" % (fd, to))
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            name = fields[5].strip() if len(fields) > 5 else ""
            if fields[1][3] == "s" and ("w" in fields[1] or not name.startswith("/") or name.endswith(" (deleted)")):
                raise SystemExit("a module shares memory (%s), and sandboxes would share it" % (name or "anonymous"))
    gc.collect()
    gc.freeze()


class Call:
    """What Call.Encode of package preload has written."""

    def __init__(self, text):
        words = iter([os.fsdecode(w) for w in text.split(b"\0")[:-1]])
        self.kind, self.what, self.options = next(words), next(words), next(words)
        self.argv, self.orig_argv, self.env = [[next(words) for _ in range(int(next(words)))] for _ in range(3)]


def stream(fd, mode, old, name, unbuffered):
    """A standard stream, made as the interpreter makes it when it starts."""
    writes = mode == "wb"
    buffer = open(fd, mode, buffering=0 if unbuffered and writes else -1, closefd=False)
    raw = getattr(buffer, "raw", buffer)
    raw.name = name
    lines = not unbuffered and (fd == 2 or raw.isatty())
    s = io.TextIOWrapper(buffer, old.encoding, old.errors, "\n", line_buffering=lines and writes, write_through=unbuffered)
    s.mode = mode[0]
    return s


def renew(call):
    """Give a fork what must be its own."""
    os.environ.clear()
    for pair in call.env:
        name, _, value = pair.partition("=")
        os.environ[name] = value
    sys.argv, sys.orig_argv = call.argv, call.orig_argv
    unbuffered = "u" in call.options or bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = stream(0, "rb", sys.stdin, "<stdin>", unbuffered)
    sys.stdout = sys.__stdout__ = stream(1, "wb", sys.stdout, "<stdout>", unbuffered)
    sys.stderr = sys.__stderr__ = stream(2, "wb", sys.stderr, "<stderr>", unbuffered)
    if "B" in call.options:
        sys.dont_write_bytecode = True
    for path, finder in list(sys.path_importer_cache.items()):
        if finder is None:  # a place that the template did not have
            del sys.path_importer_cache[path]
    # package random does it itself; what else is known to hold a generator
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 0.0)


def first(path):
    """Put the program's own place in front of the module search path."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, path)


def main_module(loader):
    main = type(sys)("__main__")
    main.__loader__ = loader
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main.__dict__


def from_file(name):
    """Code and namespace of a script."""
    try:
        with open(name, "rb") as f:
            source = f.read()
    except OSError as e:
        sys.stderr.write("python3: can't open file %r: [Errno %d] %s\n" % (absolute(name), e.errno, e.strerror))
        raise SystemExit(2)
    first(os.path.dirname(os.path.realpath(name)))
    loader = (SourcelessFileLoader if name.endswith(".pyc") else SourceFileLoader)("__main__", absolute(name))
    names = main_module(loader)
    names["__file__"], names["__cached__"] = absolute(name), None
    if name.endswith(".pyc"):
        return loader.get_code("__main__"), names
    return compile(source, absolute(name), "exec", dont_inherit=True), names


def absolute(name):
    return name if name.startswith("/") else os.getcwd() + "/" + name


def holds_modules(path):
    """Whether modules can be imported from a path: a directory or an archive."""
    for hook in sys.path_hooks:
        try:
            hook(path)
            return True
        except ImportError:
            continue
    return False


def run(call):
    """Run a program as the interpreter's own command line does."""
    if call.kind == "module":
        import runpy

        first(os.getcwd())
        main_module(BuiltinImporter)
        runpy._run_module_as_main(call.what, True)
        return
    if call.kind == "file" and holds_modules(call.what):
        import runpy

        sys.path.insert(0, absolute(call.what))
        main_module(BuiltinImporter)
        runpy._run_module_as_main("__main__", False)
        return
    if call.kind == "file":
        code, names = from_file(call.what)
    else:
        first("")
        names = main_module(BuiltinImporter)
        if call.kind == "stdin":
            names["__file__"], names["__cached__"] = "<stdin>", None
            code = compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
        else:
            code = compile(call.what, "<string>", "exec", dont_inherit=True)
    exec(code, names)


def ours(traceback):
    """Leave out the lines of this file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def uncaught(e):
    """Show an exception that nobody caught."""
    sys.last_type, sys.last_value, sys.last_traceback = type(e), e, e.__traceback__
    sys.excepthook(type(e), e, e.__traceback__)


def status(code):
    """The exit code of a SystemExit."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255
    sys.stderr.write("%s\n" % (code,))
    return 1


def flush():
    """Write out what the program printed, and tell whether standard output took it."""
    taken = True
    for s in sys.stdout, sys.stderr:
        try:
            if s is not None and not s.closed:
                s.flush()
        except Exception as e:
            if s is sys.stdout:
                sys.stderr.write("Exception ignored in: %r\n%s: %s\n" % (s, type(e).__name__, e))
                taken = False
    return taken


def clear(names):
    """Let go of a module's objects in the interpreter's order."""
    for private in True, False:
        for name in list(names):
            if name != "__builtins__" and (name[0] == "_") == private:
                names[name] = None


def leave(code, inherited, leaver):
    """End the program. The interpreter would also take down all that the
    template imported, page by page of shared memory, only to end; of that, a
    program can notice no more than destructors which Python does not promise."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    taken = flush()
    for name in "last_type", "last_value", "last_traceback", "last_exc":
        sys.__dict__.pop(name, None)
    for name, module in list(sys.modules.items()):
        if (name == "__main__" or name not in inherited) and isinstance(module, type(sys)) and module.__dict__ is not globals():
            clear(module.__dict__)
    module = None
    gc.collect()
    leaver(code if taken and flush() else 120)  # as the interpreter's


def main():
    fork, leaver = load(int(sys.argv[1]))
    os.close(4)  # of this file
    for name in sys.argv[2:]:
        __import__(name)
    inherited = frozenset(sys.modules)
    settle()
    call = Call(fork())
    renew(call)
    code = 0
    try:
        run(call)
    except SystemExit as e:
        code = status(e.code)
    except KeyboardInterrupt as e:
        uncaught(e.with_traceback(ours(e.__traceback__)))
        code = 130
        leaver = interrupt
    except BaseException as e:
        uncaught(e.with_traceback(ours(e.__traceback__)))
        code = 1
    leave(code, inherited, leaver)


def interrupt(code):
    """End by SIGINT, as shells want it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


main()
