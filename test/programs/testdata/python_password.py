# A77, A79: getpass asks on /dev/tty, with the echo off.
import getpass, sys

word = getpass.getpass("word: ")
print(len(word), sys.stdin.isatty(), open("/dev/tty").isatty())
