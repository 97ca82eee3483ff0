# A55, B37: a fork bomb in the shell, after piston tests/fork: each process
# starts two more and waits for them. The shell says "Cannot fork" at the cap.
sh "$0" "$1" & one=$!
sh "$0" "$1" & two=$!
wait $one $two
