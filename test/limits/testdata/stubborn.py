# B43, sandbox-runtime's orphan tests: programs that do not want to end. Each
# prints one line first, which must be kept, and then tries one way to stay.
import os, signal, sys, time


def ignore():
    for s in range(1, 65):
        try:
            signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError):
            pass


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def stopall():
    # stopped children of a stopped parent, in sessions of their own
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(0, signal.SIGSTOP)


def timers():
    # an alarm each millisecond, and a handler that never lets go
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    signal.signal(signal.SIGTERM, lambda *_: time.sleep(3600))


def daemon():
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ignore()
                os.closerange(0, 100)
                while True:
                    time.sleep(60)
            os._exit(0)


def closeall():
    os.closerange(0, 1024)


def vforks():
    # B49: a storm of short-lived programs, and signals to whatever there is
    ignore()
    while True:
        os.spawnv(os.P_NOWAIT, "/bin/true", ["true"])
        os.kill(0, signal.SIGUSR1)
        try:
            os.kill(-1, signal.SIGUSR2)
            os.waitpid(-1, os.WNOHANG)
        except OSError:
            pass


print("partial", flush=True)
globals()[sys.argv[1]]()
while True:
    time.sleep(60)
