# As calls.py, in the way of systems that poll: the program looks for its
# answer every 20 ms, the host for requests every 30 ms. Argument: the directory.
import json, os, sys, time, uuid

where = sys.argv[1]
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        begin = time.perf_counter_ns()
        id = uuid.uuid4().hex
        with open(f"{where}/req_{id}.tmp", "w") as f:
            json.dump({"tool": "noop", "args": {"n": 1}}, f)
        os.rename(f"{where}/req_{id}.tmp", f"{where}/req_{id}.json")
        while not os.path.exists(f"{where}/resp_{id}.done"):
            time.sleep(0.020)
        with open(f"{where}/resp_{id}.json") as f:
            json.load(f)
        took.append(time.perf_counter_ns() - begin)
    print(json.dumps(took), flush=True)
