# A34 B18: links of the workspace to descriptors of whoever starts the program; source: CVE-2024-21626
# Later programs of the sandbox are then started in them, or as them.
for n in 0 1 2 3 4 5 6 7 8 9 10 64; do
	ln -s "/proc/self/fd/$n" "/workspace/fd$n"
	ln -s "/proc/1/fd/$n" "/workspace/init$n"
done
ln -s /proc/self/exe /workspace/exe
ln -s /proc/1/exe /workspace/init-exe
ln -s /proc/1/cwd /workspace/init-cwd
ln -s /proc/1/root /workspace/init-root
echo "links: ok"
