// 200 attempts: TCP over IPv4 and IPv6. Prints how many failed.
import net from "node:net";

const attempt = (host, port) =>
  new Promise((done) => {
    const s = net.connect({ host, port });
    s.on("error", () => done(1));
    s.on("connect", () => done(0));
  });

let failed = 0;
for (let i = 0; i < 100; i++) {
  failed += await attempt("192.0.2.1", 1 + i);
  failed += await attempt("2001:db8::1", 1 + i);
}
console.log(failed);
