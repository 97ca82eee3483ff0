# A65, nsjail#263: orphans that end at once, far more of them than the process
# limit allows to exist. They can only all start if each is reaped.
import os, sys, time


def others():
    return [p for p in os.listdir("/proc") if p.isdigit() and p not in ("1", str(os.getpid()))]


def reaped():
    deadline = time.monotonic() + 60
    while others() and time.monotonic() < deadline:
        time.sleep(0.002)


n = int(sys.argv[1])
for i in range(n):
    middle = os.fork()
    if middle == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(middle, 0)
    # the orphan may not have had its turn yet
    if i % 10 == 9:
        reaped()
reaped()
print(n, "started,", len(others()), "left,", len(os.listdir("/proc/self/fd")) - 1, "descriptors")
