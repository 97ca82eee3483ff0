# Calls the tool "noop" as often as each line of standard input says, and
# prints the nanoseconds of each call.
import sys, time, json
from isolate_tools import noop

for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        begin = time.perf_counter_ns()
        noop(n=1)
        took.append(time.perf_counter_ns() - begin)
    print(json.dumps(took), flush=True)
