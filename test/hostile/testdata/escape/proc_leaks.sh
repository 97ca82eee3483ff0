# B31 B28 A41: what tells where it runs: mounts, cgroups, names, ids, environment; source: deepce, sunwalker environment
# All that can be seen goes to one file, in which the test looks for texts of the host.
{
	cat /proc/self/mountinfo /proc/self/mounts /proc/self/cgroup /proc/self/cpuset
	cat /proc/*/cmdline /proc/*/environ /proc/*/comm /proc/self/status /proc/self/maps
	cat /etc/passwd /etc/group /etc/hosts /etc/hostname /etc/machine-id /etc/resolv.conf /etc/mtab
	cat /proc/sys/kernel/hostname /proc/sys/kernel/domainname /proc/net/unix /proc/net/tcp /proc/net/route
	uname -n; hostname; id; env; pwd
	ls -lR /proc/self/ /etc /dev /home /root /run /var /tmp /opt /mnt /srv /sys
	find / -xdev
} 2>/dev/null | tr '\0' '\n' >/tmp/seen
cat /tmp/seen >seen # made elsewhere: it must not see itself
echo "cgroups: $(cut -d: -f3 /proc/self/cgroup | sort -u)"
echo "host names: $(uname -n) $(hostname) $(cat /etc/hostname)"
echo "user: $(id)"
echo "variables: $(env | cut -d= -f1 | grep -v '^_$' | sort | tr '\n' ' ')"
echo "binds: $(cat /data/data) $(cat /single)"
