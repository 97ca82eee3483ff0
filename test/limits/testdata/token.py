# A71, piston multi_request: prints its own token again and again, so that a
# byte of another run would be seen, and then does what its argument says.
import os, sys, time

token, way = sys.argv[1:]
for _ in range(20000):
    print(token)
sys.stdout.flush()
if way == "wall":
    time.sleep(600)
if way == "oom":
    kept = []
    while True:
        kept.append(bytearray(b"x" * (1 << 20)))
open("/tmp/token", "x").write(token)
print(token, file=sys.stderr)
