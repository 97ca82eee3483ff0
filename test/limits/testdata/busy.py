# A61: uses processor time, in this process or in children only (argument: how
# many). The children's time counts although nobody waits for them.
import os, signal, sys

n = int(sys.argv[1])
for _ in range(n):
    if os.fork() == 0:
        n = 0
        break
if n:
    signal.pause()
while True:
    pass
