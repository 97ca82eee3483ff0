#!/bin/bash
# Sums the invoices of the EU, as main.py does.
set -eu
url=${1:-http://127.0.0.1:8000/}
address=${url#http://}
address=${address%%/*}
began=${EPOCHREALTIME//[.,]/}
if (exec 3<>"/dev/tcp/${address/://}") 2>/dev/null; then
	echo "the URL was opened"
else
	echo "no network"
fi
printf 'URL tried for %d us\n' $((${EPOCHREALTIME//[.,]/} - began)) >&2

total=0
for id in $(tool call list_invoices '{}' | tr -d '[]",'); do
	invoice=$(tool call get_invoice "{\"id\": \"$id\"}")
	if [[ $invoice =~ '"region":'\ *'"EU"' && $invoice =~ '"total":'\ *([0-9]+) ]]; then
		total=$((total + BASH_REMATCH[1]))
	fi
done
echo "RESULT: $total"
