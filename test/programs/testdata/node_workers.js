// Eight worker threads with shared memory, and a message from each.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (!isMainThread) {
  Atomics.add(new Int32Array(workerData.shared), 0, workerData.n);
  parentPort.postMessage(workerData.n);
} else {
  const shared = new SharedArrayBuffer(4);
  const all = [...Array(8).keys()].map(n => new Promise((resolve, reject) => {
    const w = new Worker(__filename, { workerData: { shared, n }, resourceLimits: { maxOldGenerationSizeMb: 16 } });
    w.on('error', reject);
    w.on('exit', resolve);
  }));
  Promise.all(all).then(codes => console.log('workers', codes.join(''), new Int32Array(shared)[0]));
}
