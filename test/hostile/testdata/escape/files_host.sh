# B31 A9: files of the host: secrets, homes, daemons' directories; the arguments are files that are there on the host; source: deepce, seed 000
for path in "$@"; do
	n=$((n + 1))
	if cat "$path" >/dev/null 2>&1; then echo "canary $n: READ"; else echo "canary $n: absent"; fi
done
for path in /etc/shadow /etc/gshadow /etc/ssh /etc/sudoers /etc/docker /etc/kubernetes /boot /lost+found /host /rootfs \
	/var/lib /var/run/docker.sock /var/log /var/spool /run/secrets /run/user /run/systemd /root/.ssh /root/.bashrc /.dockerenv \
	/etc/hostid /etc/fstab /etc/crontab /etc/systemd; do
	if [ -e "$path" ]; then echo "$path: THERE"; else echo "$path: absent"; fi
done
for path in /root /run /var/tmp /opt /mnt /srv /tmp /home/sandbox; do
	echo "entries of $path: $(ls -A "$path" | wc -l)"
done
echo "homes: $(ls /home)"
