# A53: what a program sees of its terminal. It prints facts, waits for a new
# size, and echoes a line that was typed.
import fcntl, os, signal, struct, sys, termios


def size():
    return struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))[:2]


changed = []
signal.signal(signal.SIGWINCH, lambda *_: changed.append(1))
print("isatty", [os.isatty(f) for f in range(3)])
tty = os.open("/dev/tty", os.O_RDWR)
os.write(tty, b"tty opens\n")
print("name", os.ttyname(0), os.path.exists(os.ttyname(0)))
print("others", sorted(os.listdir("/dev/pts")))
print("session", os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp())
print("size", *size(), flush=True)
while not changed:
    signal.pause()
print("resized", *size(), flush=True)
print("typed", sys.stdin.readline().strip())
