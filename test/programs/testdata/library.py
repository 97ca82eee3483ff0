# B82: the parts of the standard library that are C and talk to the kernel, and
# what they are for.
import bz2, ctypes, curses, decimal, fcntl, hashlib, json, locale, lzma, mmap, os, random, resource
import secrets, select, signal, ssl, struct, subprocess, termios, time, unicodedata, uuid, zipfile, zlib

m = mmap.mmap(-1, 8192)
m[:2] = b"ok"
print("mmap", m[:2].decode())
print("ctypes", ctypes.CDLL(None).getpid() == os.getpid())
print("hash", hashlib.sha256(b"x").hexdigest()[:8], len(secrets.token_bytes(8)), len(os.urandom(4)))
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.pause()
r, w = os.pipe()
poll = select.epoll()
poll.register(r, select.EPOLLIN)
os.write(w, b"x")
print("epoll", poll.poll(1) == [(r, select.EPOLLIN)])
print("ssl", ssl.create_default_context().verify_mode.name)
print("clock", time.monotonic() > 0, time.process_time() >= 0, abs(time.time() - os.stat("/proc/self").st_mtime) < 60)
print("limits", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print("codecs", zlib.decompress(zlib.compress(b"z")), bz2.decompress(bz2.compress(b"b")), lzma.decompress(lzma.compress(b"l")))
print("affinity", len(os.sched_getaffinity(0)) >= 1, os.cpu_count() >= 1)
os.sched_yield()
os.setpriority(os.PRIO_PROCESS, 0, 5)
print("run", subprocess.run(["sh", "-c", "exit 3"]).returncode, os.system("exit 4") >> 8)
