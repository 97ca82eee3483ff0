// B82: worker threads that share memory, atomics, and messages.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');

if (isMainThread) {
  const shared = new SharedArrayBuffer(4);
  const count = new Int32Array(shared);
  const workers = Array.from({ length: 4 }, (_, n) => new Promise((resolve, reject) => {
    const w = new Worker(__filename, { workerData: { shared, n } });
    w.on('message', resolve);
    w.on('error', reject);
  }));
  Promise.all(workers).then((said) => console.log('workers', said.join(' '), Atomics.load(count, 0)));
} else {
  for (let i = 0; i < 1000; i++) Atomics.add(new Int32Array(workerData.shared), 0, 1);
  parentPort.postMessage(workerData.n * workerData.n);
}
