// fs, os, crypto and zlib; keys and passwords come from the thread pool.
const fs = require('fs'), os = require('os'), crypto = require('crypto'), zlib = require('zlib'), path = require('path');
(async () => {
  const dir = await fs.promises.mkdtemp(path.join(os.tmpdir(), 'n-'));
  const file = path.join(dir, 'f');
  await fs.promises.writeFile(file, 'x'.repeat(1e6));
  await fs.promises.copyFile(file, file + '2');
  await fs.promises.rename(file + '2', path.join(dir, 'g'));
  console.log(fs.readdirSync(dir).join(' '), fs.statSync(file).size);
  fs.rmSync(dir, { recursive: true });
  console.log(os.userInfo().username, os.availableParallelism() > 0, os.hostname(), os.homedir() === process.env.HOME);
  console.log(crypto.createHash('sha256').update('abc').digest('hex').slice(0, 16), crypto.randomBytes(8).length);
  const key = await new Promise((ok, no) => crypto.scrypt('a', 'b', 16, (e, k) => e ? no(e) : ok(k)));
  const { publicKey } = crypto.generateKeyPairSync('ed25519');
  console.log(key.length, publicKey.asymmetricKeyType, zlib.gunzipSync(zlib.gzipSync('zip')).toString());
})();
