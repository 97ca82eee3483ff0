// child_process in its four ways, and a message to a forked one.
const { execFileSync, spawn, fork, exec } = require('child_process');
if (process.argv[2] === 'child') {
  process.on('message', m => { process.send(m + 1); process.disconnect(); });
  return;
}
console.log(execFileSync('sh', ['-c', 'echo file $0', 'ok'], { encoding: 'utf8' }).trim());
exec('echo shell; exit 3', (err, out) => {
  console.log(out.trim(), err.code);
  const s = spawn('sort', ['-r'], { stdio: ['pipe', 'pipe', 'inherit'] });
  s.stdout.on('data', d => console.log(d.toString().trim().split('\n').join(' ')));
  s.on('close', code => {
    console.log('sort', code);
    const c = fork(__filename, ['child']);
    c.on('message', m => console.log('forked', m));
    c.send(41);
  });
  s.stdin.end('a\nb\n');
});
