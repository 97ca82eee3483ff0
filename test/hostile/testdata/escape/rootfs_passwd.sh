# B22: account files of two GiB, of no end, and of other kinds in a root file system; source: CVE-2026-135844
mkdir -p "$1/etc"
truncate -s 2G "$1/etc/passwd"
ln -sf /dev/zero "$1/etc/group"
mkfifo "$1/etc/nsswitch.conf"
ln -sf /proc/self/mem "$1/etc/hosts"
