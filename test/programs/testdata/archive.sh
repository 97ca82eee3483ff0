# A82: archives made, compressed by the tools named, listed and unpacked; two compressors alone.
set -eu
mkdir -p tree/sub && seq 1 20000 >tree/sub/numbers && ln -s sub/numbers tree/link && chmod 750 tree/sub
for z in "$@"; do
	tar "--$z" -cf "t.$z" tree
	mkdir "out.$z" && tar -xf "t.$z" -C "out.$z"
	diff -r tree "out.$z/tree"
	echo "$z" "$(stat -c %a "out.$z/tree/sub")" "$(tar -tf "t.$z" | wc -l)"
done
gzip -k -9 tree/sub/numbers && zcat tree/sub/numbers.gz | tail -1
xz -T2 -c tree/sub/numbers | xz -dc | wc -l
