# A82: a repository made, committed to, branched, merged, packed, cloned and read.
set -eu
git init -q -b main repo && cd repo
git config user.email a@example.com && git config user.name A
for i in 1 2 3; do echo "$i" >"f$i" && git add . && git commit -q -m "commit $i"; done
git checkout -q -b side HEAD~1 && echo x >side && git add side && git commit -q -m side
git checkout -q main && git merge -q -m merged side
git log --format=%s | wc -l
git gc -q && git count-objects -v | sed -n 's/^count: //p'
git fsck --strict 2>&1 | wc -l
git clone -q . ../copy && git -C ../copy log -1 --format=%s
git stash list | wc -l
echo y >f1 && git diff --stat | tail -1
