// A6, B82: servers and clients on both loopback addresses, and HTTP by fetch.
const net = require('net');
const http = require('http');
const dgram = require('dgram');

const echo = (host) => new Promise((resolve, reject) => {
  const server = net.createServer((c) => c.pipe(c)).on('error', reject).listen(0, host, () => {
    const c = net.connect(server.address().port, host, () => c.end('tcp'));
    let got = '';
    c.on('data', (d) => { got += d; }).on('error', reject).on('end', () => { server.close(); resolve(`${host} ${got}`); });
  });
});
const datagram = (type, host) => new Promise((resolve, reject) => {
  const s = dgram.createSocket(type).on('error', reject).on('message', (m) => { s.close(); resolve(`${host} ${m}`); });
  s.bind(0, host, () => s.send('udp', s.address().port, host));
});
(async () => {
  console.log(await echo('127.0.0.1'));
  console.log(await echo('::1'));
  console.log(await datagram('udp4', '127.0.0.1'));
  console.log(await datagram('udp6', '::1'));
  const server = http.createServer((q, a) => a.end('http')).listen(8080, '127.0.0.1', async () => {
    console.log(await (await fetch('http://127.0.0.1:8080/')).text());
    server.closeAllConnections();
    server.close();
  });
})().catch((e) => { console.error(e); process.exit(1); });
