# A1: curl to the outside and by name; source: piston tests/network
curl -sS -m 20 "http://192.0.2.1:$1/" >/dev/null 2>&1
echo "curl by address: exit-$?" # 7: could not connect
curl -sS -m 20 "http://outside.example/" >/dev/null 2>&1
echo "curl by name: exit-$?" # 6: could not resolve host
