# A82: what bash scripts do: pipelines, substitutions, jobs, traps, here-documents.
set -euo pipefail
seq 1 1000 | grep 7 | sort -rn | head -3 | paste -sd' ' - || [ $? = 141 ]
diff <(printf 'a\nb\n') <(printf 'a\nc\n') | grep '^[<>]' || true
for i in 1 2 3; do (sleep 0.0$i; exit "$i") & pids[i]=$!; done
codes=
for i in 1 2 3; do wait "${pids[i]}" || codes+=$?; done
echo "jobs $codes"
coproc CAT { cat; }
echo through >&"${CAT[1]}"
read -r back <&"${CAT[0]}"
echo "coproc $back"
mapfile -t lines <<<$'x\ny'
echo "here ${#lines[@]}"
set +o pipefail
yes | head -1000000 | wc -l
ulimit -n >/dev/null
trap 'echo trapped' USR1
kill -USR1 $$
(trap 'echo bye' EXIT)
exec 3>out 4<&0
echo file >&3
cat out
