# A74: the three ways of multiprocessing to start a process, queues and a pool.
import multiprocessing


def square(q, n):
    q.put(n * n)


def triple(n):
    return 3 * n


if __name__ == "__main__":
    for method in "fork", "spawn", "forkserver":
        mp = multiprocessing.get_context(method)
        q = mp.Queue()
        p = mp.Process(target=square, args=(q, 7))
        p.start()
        got = q.get(timeout=60)
        p.join()
        print(method, got, p.exitcode)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print("pool", sum(pool.map(triple, range(100))))
