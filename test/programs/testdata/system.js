// B82: files, the system, and cryptography.
const fs = require('fs');
const os = require('os');
const crypto = require('crypto');
const zlib = require('zlib');
const path = require('path');

(async () => {
  const dir = await fs.promises.mkdtemp(path.join(os.tmpdir(), 'x-'));
  const seen = new Promise((resolve) => fs.watch(dir, (event, name) => resolve(name)));
  await fs.promises.writeFile(path.join(dir, 'a'), 'text');
  console.log('watch', await seen);
  fs.copyFileSync(path.join(dir, 'a'), path.join(dir, 'b'));
  fs.renameSync(path.join(dir, 'b'), path.join(dir, 'c'));
  fs.symlinkSync('c', path.join(dir, 'd'));
  console.log('files', fs.readdirSync(dir).join(' '), fs.readFileSync(path.join(dir, 'd'), 'utf8'));
  console.log('os', os.platform(), os.userInfo().username, os.homedir(), os.cpus().length > 0, os.totalmem() > 0, os.hostname());
  console.log('sha256', crypto.createHash('sha256').update('x').digest('hex').slice(0, 8));
  const { privateKey, publicKey } = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  console.log('sign', crypto.verify('sha256', Buffer.from('m'), publicKey, crypto.sign('sha256', Buffer.from('m'), privateKey)));
  console.log('scrypt', crypto.scryptSync('p', 's', 8).length, crypto.randomUUID().length);
  console.log('gzip', zlib.gunzipSync(zlib.gzipSync('zipped')).toString());
  try {
    console.log('interfaces', Object.keys(os.networkInterfaces()).length);
  } catch (e) {
    console.log('interfaces', e.code);
  }
})();
