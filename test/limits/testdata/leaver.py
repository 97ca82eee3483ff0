# A63, B44, langfuse#15955, bubblewrap#105: the main program ends and leaves a
# child that holds stdout and goes on writing. Argument: how it was detached.
import os, sys, time


def writer():
    while True:
        try:
            os.write(1, b"still here\n")
        except OSError:
            pass
        time.sleep(0.001)


way = sys.argv[1]
if os.fork() == 0:
    if way != "child":
        os.setsid()
    if way == "twice" and os.fork() != 0:
        os._exit(0)
    writer()
time.sleep(0.1)
os.write(1, b"main ends\n")
os._exit(5)
