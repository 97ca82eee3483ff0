// Reads sets of generated files, one JSON object a line, and answers each with
// an empty line or with what is wrong with it. Needs --experimental-vm-modules.
const vm = require('vm');
const assert = require('assert');

async function check({ files, tools }) {
  const dir = 'node_modules/isolate-tools/';
  JSON.parse(files[dir + 'package.json']);
  const load = (name) => {
    if (name.endsWith('.json')) return JSON.parse(files[dir + name.slice(2)]);
    const module = { exports: {} };
    const text = files[dir + name.slice(2)];
    vm.compileFunction(text, ['exports', 'require', 'module', 'process', 'performance'])
      .call(undefined, module.exports, (n) => (n.startsWith('./') ? load(n) : require(n)), module, process, performance);
    return module.exports;
  };
  const common = load('./index.cjs');
  const sheet = new vm.SourceTextModule(files[dir + 'index.mjs']);
  await sheet.link((name) => {
    assert.equal(name, './index.cjs');
    return new vm.SyntheticModule(['default'], function () { this.setExport('default', common); });
  });
  await sheet.evaluate();
  const space = sheet.namespace;
  assert.equal(space.then, undefined);
  for (const tool of tools) {
    assert.equal(typeof common[tool.id], 'function');
    assert.equal(typeof common[tool.id].sync, 'function');
    assert(Object.hasOwn(common, tool.id));
    assert.equal(space[tool.id], common[tool.id]);
  }
  assert.equal(Object.keys(common).length, tools.length + 11);
  const found = common.searchTools();
  assert.equal(found.length, tools.length);
}

require('readline').createInterface({ input: process.stdin }).on('line', async (line) => {
  let answer = '';
  try {
    await check(JSON.parse(line));
  } catch (err) {
    answer = JSON.stringify(String(err.stack).slice(0, 3000));
  }
  process.stdout.write(answer + '\n');
});
