# B37: threads until no more can be had; each stays.
import sys, threading

stay = threading.Event()
threading.stack_size(64 << 10)
n = 0
try:
    while True:
        threading.Thread(target=stay.wait, daemon=True).start()
        n += 1
except RuntimeError as e:
    print(n, e, flush=True)
    sys.stdout.flush()
    import os
    os._exit(1)
