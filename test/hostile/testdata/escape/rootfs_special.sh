# A51 B14 A54: setuid and setgid programs, devices and pipes in a root file system ($1), made from the program $2; source: bubblewrap tests, seed 000
cp "$2" "$1/bin/gain" && chown "$(id -u):$(id -g)" "$1/bin/gain" && chmod 6755 "$1/bin/gain"
cp "$2" "$1/bin/gain-caps"
mkfifo -m 666 "$1/pipe"
if [ "$(id -u)" = 0 ]; then # others cannot make devices
	mknod -m 666 "$1/memory" c 1 1
	mknod -m 666 "$1/null" c 1 3
	mknod -m 666 "$1/disk" b 7 0
fi
