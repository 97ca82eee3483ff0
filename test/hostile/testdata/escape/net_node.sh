# A1: Node's fetch to the outside and by name; source: piston tests/network
exec node -e '
const port = process.argv[1];
(async () => {
  for (const [what, url] of [["fetch by address", `http://192.0.2.1:${port}/`], ["fetch by name", "http://outside.example/"]])
    await fetch(url).then(() => console.log(what + ": ok"), e => console.log(what + ": " + e.cause.code));
})();
' "$1"
