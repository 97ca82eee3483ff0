# A82: the text tools.
set -eu
for i in 1 2 3 4 5; do echo "user$i,$((i * i)),city$((i % 2))"; done >t.csv
awk -F, '{ n[$3] += $2 } END { for (c in n) print c, n[c] | "sort" }' t.csv
sed -n 's/^user\([0-9]\),.*/\1/p' t.csv | tr '\n' ' ' | xargs
sed -i 's/city1/town/' t.csv
grep -c town t.csv
mkdir -p a/b a/c && touch a/b/x.txt a/c/y.txt a/z.log
find a -name '*.txt' -exec basename {} \; | sort | xargs
find a -type f -print0 | xargs -0 -n1 -P4 echo | wc -l
cut -d, -f2 t.csv | sort -n | tail -1
join -t, t.csv t.csv | wc -l
split -l 2 t.csv part. && ls part.* | wc -l
sha256sum t.csv | cut -c1-2 | wc -c
date -u -d @0 +%Y
timeout 60 true && echo in time
nproc | grep -c '^[1-9]'
