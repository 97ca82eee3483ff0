# A74, B83: memory shared by name between processes.
from multiprocessing import Process, shared_memory


def write(name):
    there = shared_memory.SharedMemory(name=name)
    there.buf[:5] = b"hello"
    there.close()


if __name__ == "__main__":
    here = shared_memory.SharedMemory(create=True, size=1 << 20)
    p = Process(target=write, args=(here.name,))
    p.start()
    p.join()
    print("shared", bytes(here.buf[:5]).decode(), p.exitcode)
    items = shared_memory.ShareableList([1, "two", 3.0])
    print("list", list(items))
    items.shm.close()
    items.shm.unlink()
    here.close()
    here.unlink()
