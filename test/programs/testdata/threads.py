# B83: 50 threads that all meet, and one result.
import threading

meet = threading.Barrier(50, timeout=60)
lock = threading.Lock()
total = 0


def work(n):
    global total
    meet.wait()
    with lock:
        total += n


threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", total)
