# A79: script(1) gives a program a terminal and keeps what it prints.
script -qec 'test -t 1 && echo terminal; exit 3' kept </dev/null >/dev/null || echo "code $?"
grep -c '^terminal' kept
