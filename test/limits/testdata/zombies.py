# A65, nsjail#263: orphans that end at once, far more of them than the process
# limit allows to exist. They can only all start if each is reaped.
import os, sys, time

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
        time.sleep(0.002)
deadline = time.monotonic() + 10
while time.monotonic() < deadline:
    left = [p for p in os.listdir("/proc") if p.isdigit() and p not in ("1", str(os.getpid()))]
    if not left:
        break
    time.sleep(0.01)
print(n, "started,", len(left), "left,", len(os.listdir("/proc/self/fd")) - 1, "descriptors")
