# B88, B43: says that it was asked to end and goes on. Argument "leave" makes it
# end instead, "stop" stops it first, so that it cannot answer.
import os, signal, sys, time


def asked(*_):
    print("asked", flush=True)
    if "leave" in sys.argv:
        sys.exit(7)


signal.signal(signal.SIGTERM, asked)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
if "stop" in sys.argv:
    os.kill(os.getpid(), signal.SIGSTOP)
while True:
    time.sleep(60)
