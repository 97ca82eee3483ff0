# A program that takes all terminals it can get, says how many, and keeps them.
import os, sys

held = []
try:
    while True:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e:
    print(len(held), e.strerror, flush=True)
sys.stdin.read()
