# A74, B83, codex#7251: multiprocessing by the start method that the argument
# names: a process with a queue, a pool, a manager and an executor.
import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor


def square(n):
    return n * n


def put(queue, lock, value):
    with lock:
        value.value += 1
    queue.put(value.value)


if __name__ == "__main__":
    ctx = mp.get_context(sys.argv[1])
    queue, lock, value = ctx.Queue(), ctx.Lock(), ctx.Value("i", 41)
    p = ctx.Process(target=put, args=(queue, lock, value))
    p.start()
    print("queue", queue.get(timeout=60))
    p.join()
    with ctx.Pool(4) as pool:
        print("pool", sum(pool.map(square, range(100))))
    with ProcessPoolExecutor(2, mp_context=ctx) as pool:
        print("executor", list(pool.map(square, range(4))))
    with ctx.Manager() as manager:
        d = manager.dict(answer=42)
        print("manager", d["answer"])
