"""A first program: it computes, and it finds out where it is."""
import os

print("6 * 7 =", 6 * 7)
print("user:", os.getuid(), "home:", os.environ["HOME"])
with open("/proc/net/dev") as f:
    print("network interfaces:", [line.split(":")[0].strip() for line in f if ":" in line])
