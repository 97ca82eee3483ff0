# What interpreters ask of files: links, locks, maps, times, trees copied and removed.
import fcntl, mmap, os, shutil

os.makedirs("d/e")
with open("d/f", "wb") as f:
    f.write(b"0123456789" * 1000)
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(f, fcntl.LOCK_EX)
    os.fsync(f.fileno())
    os.posix_fallocate(f.fileno(), 0, 20000)
os.symlink("f", "d/s")
os.link("d/f", "d/h")
os.chmod("d/f", 0o600)
os.utime("d/f", (1, 2))
print(os.path.getsize("d/s"), os.stat("d/f").st_nlink, int(os.stat("d/h").st_mtime))
shutil.copytree("d", "copy", symlinks=True)
shutil.move("copy", "moved")
print(sorted(os.listdir("moved")), os.readlink("moved/s"))
with open("moved/h", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    m[:4] = b"map!"
    m.flush()
print(open("moved/h", "rb").read(8))
print(shutil.disk_usage(".").total > 0)
shutil.rmtree("moved")
