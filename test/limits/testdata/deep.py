# B39: directories in directories, as many as were asked for.
import os, sys

name = "d" * 20
n = int(sys.argv[1])
for i in range(n):
    os.mkdir(name)
    os.chdir(name)
print(n, "deep")
