// Calls a tool that does nothing N times and prints the times in ns.
const { nothing } = require('isolate-tools');

async function measure(call, count) {
  const times = [];
  for (let i = 0; i < count; i++) {
    const began = process.hrtime.bigint();
    await call();
    times.push(Number(process.hrtime.bigint() - began));
  }
  return times;
}

(async () => {
  const call = process.argv[2] === 'direct' ? nothing.sync : nothing;
  await measure(call, 300);
  console.log((await measure(call, Number(process.argv[3]))).join(' '));
})();
