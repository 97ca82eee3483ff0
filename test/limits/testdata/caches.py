# B48: thrashes the page cache with files of the root file system, and floods
# the cache of names with names that do not exist.
import os

read = 0
for directory, _, names in os.walk("/usr/lib"):
    for name in names:
        path = os.path.join(directory, name)
        try:
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb", 0) as f:
                    while chunk := f.read(1 << 20):
                        read += len(chunk)
        except OSError:
            pass
        if read > 400 << 20:
            break
    if read > 400 << 20:
        break
for i in range(300000):
    try:
        os.stat("/tmp/%060d" % i)
    except FileNotFoundError:
        pass
print("usable", read >= 60 << 20)
