# A42, B39, piston tests/fallocate, sunwalker's quota tests: fills a directory
# in one way until the file system refuses. Prints the errno, what had been
# stored by then (MiB or files), and that a neighbour process still runs.
import errno, os, subprocess, sys

MIB = 1 << 20


def one(d):
    f = os.open(d + "/one", os.O_CREAT | os.O_WRONLY)
    block = b"x" * MIB
    while True:
        n = os.write(f, block)
        stored[0] += n / MIB


def allocate(d):
    # what does not fit as a whole is not allocated in part
    f = os.open(d + "/one", os.O_CREAT | os.O_WRONLY)
    size = MIB
    while True:
        try:
            os.posix_fallocate(f, int(stored[0] * MIB), size)
            stored[0] += size / MIB
        except OSError:
            if size == 4096:
                raise
            size //= 2


def empty(d):
    while True:
        os.close(os.open("%s/%d" % (d, stored[0]), os.O_CREAT | os.O_WRONLY))
        stored[0] += 1


def longnames(d):
    while True:
        os.mkdir("%s/%0255d" % (d, stored[0]))
        stored[0] += 1


def tiny(d):
    for i in range(10000):
        with open("%s/%d" % (d, i), "w") as f:
            f.write("x" * 4096)
        stored[0] += 1


way, directory = sys.argv[1:]
stored = [0]
try:
    globals()[way](directory)
    said = "fits"
except OSError as e:
    said = errno.errorcode[e.errno]
alive = subprocess.run(["sh", "-c", "echo alive"], capture_output=True).stdout.decode().strip()
print(said, int(stored[0]), alive)
sys.exit(said != "fits")
