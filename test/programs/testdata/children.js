// B82: child processes in every way that Node has.
const cp = require('child_process');

if (process.argv[2] === 'child') {
  process.on('message', (m) => { process.send(m + 1); process.disconnect(); });
} else {
  console.log('execSync', cp.execSync('echo sync').toString().trim());
  console.log('spawnSync', cp.spawnSync('cat', { input: 'piped' }).stdout.toString());
  cp.exec('exit 3', (err) => console.log('exec', err.code));
  const f = cp.fork(__filename, ['child']);
  f.on('message', (m) => {
    console.log('fork', m);
    const sleeper = cp.spawn('sleep', ['60'], { detached: true });
    sleeper.on('exit', (code, signal) => console.log('killed', signal));
    sleeper.kill('SIGTERM');
  });
  f.send(41);
}
