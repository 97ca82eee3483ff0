# A55, codex#38909: a linear chain in which each shell starts the next and
# stays. The one that cannot start another ends with the shell's code for it,
# and every one above passes that on.
n=${1:-1}
echo "$n"
sh "$0" $((n + 1)) || exit
