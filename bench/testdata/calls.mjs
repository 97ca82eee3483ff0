// As calls.py, with the JavaScript module.
import { createInterface } from "node:readline";
import { noop } from "isolate-tools";

for await (const line of createInterface({ input: process.stdin })) {
  const took = [];
  for (let i = 0; i < Number(line); i++) {
    const begin = process.hrtime.bigint();
    await noop({ n: 1 });
    took.push(Number(process.hrtime.bigint() - begin));
  }
  console.log(JSON.stringify(took));
}
