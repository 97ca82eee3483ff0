# B46: uses all the processor time it can get, and tries to get more.
import os, sys


def spin():
    while True:
        pass


def one():
    spin()


def many():
    for _ in range(4 * os.cpu_count()):
        if os.fork() == 0:
            spin()
    spin()


def nice():
    for wanted in (-20, -1):
        try:
            os.nice(wanted)
        except OSError:
            pass
    for policy in (os.SCHED_FIFO, os.SCHED_RR, os.SCHED_BATCH):
        try:
            os.sched_setscheduler(0, policy, os.sched_param(1))
        except OSError:
            pass
    many()


def affinity():
    for cpu in range(os.cpu_count()):
        if os.fork() == 0:
            try:
                os.sched_setaffinity(0, [cpu])
            except OSError:
                pass
            spin()
    try:
        os.sched_setaffinity(0, range(64))
    except OSError:
        pass
    spin()


globals()[sys.argv[1]]()
