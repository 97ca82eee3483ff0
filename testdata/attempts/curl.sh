# 60 attempts by curl: plain, encrypted and IPv6. Prints how many failed as they
# should: 7 is "cannot connect".
n=0
for i in $(seq 20); do
	for url in http://192.0.2.1:$i/ https://192.0.2.2:$i/ "http://[2001:db8::1]:$i/"; do
		curl -s -o /dev/null --noproxy '*' --connect-timeout 5 "$url"
		[ $? -eq 7 ] && n=$((n + 1))
	done
done
echo $n
