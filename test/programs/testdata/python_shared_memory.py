# A74: shared_memory between processes, and a semaphore of /dev/shm.
import multiprocessing
from multiprocessing import shared_memory


def child(name, done):
    m = shared_memory.SharedMemory(name=name)
    m.buf[:5] = b"hello"
    m.close()
    done.release()


if __name__ == "__main__":
    m = shared_memory.SharedMemory(create=True, size=1 << 20)
    done = multiprocessing.Semaphore(0)
    p = multiprocessing.Process(target=child, args=(m.name, done))
    p.start()
    ok = done.acquire(timeout=60)
    p.join()
    print(ok, bytes(m.buf[:5]).decode(), p.exitcode)
    m.close()
    m.unlink()
