// Servers and clients on the loopback interface: net on both families, and http by name.
const net = require('net'), http = require('http');
const one = host => new Promise((resolve, reject) => {
  const server = net.createServer(c => c.end('from ' + host));
  server.on('error', reject);
  server.listen(0, host, () => {
    const c = net.connect(server.address().port, host);
    let got = '';
    c.on('data', d => got += d).on('error', reject).on('close', () => server.close(() => resolve(got)));
  });
});
(async () => {
  for (const host of ['127.0.0.1', '::1']) console.log(await one(host));
  const server = http.createServer((q, r) => r.end('http ' + q.url)).listen(0, 'localhost', async () => {
    console.log(await (await fetch(`http://localhost:${server.address().port}/x`)).text());
    server.close();
    server.closeAllConnections();
  });
})().catch(e => { console.error(e.code, e.syscall); process.exit(1); });
