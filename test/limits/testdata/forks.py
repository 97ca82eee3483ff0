# A55, B37: forks until it cannot, says how far it got and why it ended, then
# keeps trying from every process until somebody ends it.
import errno, os, sys, time

started = 0
while True:
    try:
        if os.fork() == 0:
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
        started += 1
    except OSError as e:
        print(errno.errorcode[e.errno], flush=True)
        if sys.argv[1:] == ["once"]:
            sys.exit(1)
        time.sleep(3600)
