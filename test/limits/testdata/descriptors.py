# B41: takes kernel objects in one way until it is refused. Prints how many it
# had and the errno, keeps them, and waits for its standard input to end.
import errno, os, select, socket, sys


def files():
    keep.append(os.open("/dev/null", os.O_RDONLY))


def pipes():
    keep.extend(os.pipe())


def sockets():
    keep.append(socket.socket(socket.AF_UNIX))


def epolls():
    # each watches the one before: the kernel allows a few levels
    e = select.epoll()
    if keep:
        e.register(keep[-1])
    keep.append(e)


keep = []
make = globals()[sys.argv[1]]
try:
    while True:
        make()
except OSError as e:
    print(len(keep), errno.errorcode[e.errno], flush=True)
sys.stdin.read()
