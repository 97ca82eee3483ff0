# A74: fifty threads that meet at a barrier and share a lock.
import queue, threading

N = 50
barrier, lock, results, total = threading.Barrier(N), threading.Lock(), queue.Queue(), 0


def work(i):
    global total
    barrier.wait(60)  # only passes when all of them exist at once
    with lock:
        total += i
    results.put(i)


threads = [threading.Thread(target=work, args=(i,)) for i in range(N)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(N, "threads:", total, results.qsize())
