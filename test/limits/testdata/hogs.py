# A57, B38: takes memory in one way until somebody ends it. The ways are those
# of stress-ng's vm, memfd and pipe stressors and of sunwalker's memfd_limit.
import os, signal, socket, sys

BLOCK = b"x" * (1 << 20)


def heap():
    kept = []
    while True:
        kept.append(bytearray(BLOCK))


def endless(f):
    while True:
        os.write(f, BLOCK)


def memfd():
    endless(os.memfd_create("hog"))


def tmpfs():
    endless(os.open("/workspace/hog", os.O_CREAT | os.O_WRONLY))


def shm():
    endless(os.open("/dev/shm/hog", os.O_CREAT | os.O_WRONLY))


def children():
    # none is large by itself
    while True:
        if os.fork() == 0:
            kept = bytearray(BLOCK * 4)
            signal.pause()


def pipes():
    # One process may not open enough of them.
    for _ in range(3):
        if os.fork() == 0:
            fill(os.pipe)
    signal.pause()


def sockets():
    fill(lambda: [s.detach() for s in socket.socketpair()])


def fill(make):
    for _ in range(500):
        _, end = make()
        os.set_blocking(end, False)
        try:
            while True:
                os.write(end, BLOCK)
        except BlockingIOError:
            pass
    signal.pause()


globals()[sys.argv[1]]()
