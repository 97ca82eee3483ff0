'use strict';
// The program's end of the bridge: requests out, answers in. One watcher of
// the directory of answers serves all promises of a thread.

const fs = require('fs');

const dir = process.env.ISOLATE_BRIDGE || '/workspace/_rpc';

// A small request is the text of a symbolic link that nobody follows: one system
// call, and the host is woken once.
const texts = `${dir}/req/.text`;
const TEXT_MAX = 4095; // bytes

// Where others are written. Nobody watches there.
const partials = `${dir}/req/.tmp-new`;

const LOOK_AGAIN = 500; // ms after which an answer is found whose event was missed
const FIRST_PAUSE = 1; // ms between two looks without a watcher, from first to last
const LAST_PAUSE = 20;
const SPIN = 0.5; // ms that callSync looks without a pause
const MAX_ACKS = 100; // read answers that one request reports

class ToolError extends Error {
  constructor(code, message, details, tool) {
    const text = message || code;
    // that a tool is unknown is said with its name
    super(tool && code !== 'unknown_tool' ? `${tool}: ${text}` : text);
    this.name = new.target.name;
    this.code = code;
    this.details = details === undefined ? null : details;
    this.tool = tool === undefined ? null : tool;
  }
}
class ToolDenied extends ToolError {}
class ToolInvalidArguments extends ToolError {}
class ToolTimeout extends ToolError {}
class ToolLimit extends ToolError {}
class ToolFailed extends ToolError {}
class BridgeClosed extends ToolError {}

const classes = new Map([
  ['denied', ToolDenied],
  ['invalid_arguments', ToolInvalidArguments],
  ['timeout', ToolTimeout],
  ['limit', ToolLimit],
  ['failed', ToolFailed],
  ['closed', BridgeClosed],
]);

// Numbers that a double cannot hold go through JSON as strings with a mark
// that no text can have by chance.
let mark;
const secret = () => (mark ||= `${require('crypto').randomUUID()}:`);
const token = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

function decode(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const marked = text.replace(token, (t) =>
    /^-?\d{16,}$/.test(t) && !Number.isSafeInteger(Number(t)) ? `"${secret()}${t}"` : t);
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (_, v) =>
    typeof v === 'string' && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : v);
}

function encode(tool, value) {
  let big = false;
  let text;
  try {
    text = JSON.stringify(value, (key, v) => {
      if (typeof v === 'bigint') {
        big = true;
        return secret() + v;
      }
      if (typeof v === 'number' && !Number.isFinite(v)) throw new TypeError(`${key} is ${v}`);
      return v;
    });
  } catch (err) {
    throw new ToolInvalidArguments('invalid_arguments',
      `the arguments cannot be written as JSON: ${err.message}`, null, tool);
  }
  if (big) text = text.replace(token, (t) => (t.startsWith(`"${mark}`) ? t.slice(1 + mark.length, -1) : t));
  return text;
}

const acks = []; // ids of answers that were read and that the host may remove

// check refuses what is no object: a model that writes weather('Rome') is told
// how it is written.
function check(tool, args) {
  const have = Array.isArray(args) ? 'array' : typeof args;
  if (args === undefined || args === null || have === 'object') return;
  const known = require('./signatures.json').find(([, about]) => about.startsWith(`${tool} `.toLowerCase()));
  throw new ToolInvalidArguments('invalid_arguments',
    `the arguments are one object, not ${have === 'array' ? 'an array' : `a ${have}`}${known ? `: ${known[0]}` : ''}`, null, tool);
}

function send(id, tool, args) {
  check(tool, args);
  const acked = acks.splice(0, MAX_ACKS);
  const partial = `${partials}/${id}`;
  try {
    const request = { tool, args: args === undefined || args === null ? {} : args };
    if (acked.length) request.ack = acked;
    const body = encode(tool, request);
    if (text(id, body)) return;
    create(partial, body);
    fs.renameSync(partial, `${dir}/req/req_${id}.json`);
  } catch (err) {
    acks.push(...acked);
    if (err instanceof ToolError) throw err;
    try { fs.unlinkSync(partial); } catch { /* was not made */ }
    if (err.code === 'ENOSPC' || err.code === 'EDQUOT' || err.code === 'EFBIG') {
      throw new ToolLimit('no_space', 'there is no space for the request', null, tool);
    }
    throw new BridgeClosed('closed', `the bridge takes no requests: ${err.code}`, null, tool);
  }
}

// text sends a small request; false if it cannot be sent so.
function text(id, body) {
  if (body.length > TEXT_MAX || Buffer.byteLength(body) > TEXT_MAX) return false;
  try {
    fs.symlinkSync(body, `${texts}/req_${id}.json`);
    return true;
  } catch {
    return false; // what is wrong is the same for a file
  }
}

function create(partial, body) {
  const how = { flag: 'wx', mode: 0o600 };
  try {
    fs.writeFileSync(partial, body, how);
  } catch (err) {
    if (err.code !== 'ENOENT') throw err;
    // the first request of this sandbox
    try {
      fs.mkdirSync(partials, { mode: 0o700 });
    } catch (made) {
      if (made.code !== 'EEXIST') throw made; // else another was quicker
    }
    fs.writeFileSync(partial, body, how);
  }
}

let page; // of one small answer

// read is readFileSync with half of its work for a small file.
function read(path) {
  try {
    return fs.readlinkSync(path);
  } catch (err) {
    if (err.code !== 'EINVAL') throw err;
  }
  const fd = fs.openSync(path);
  try {
    page ||= Buffer.allocUnsafeSlow(16384);
    const n = fs.readSync(fd, page, 0, page.length, 0);
    return n < page.length ? page.utf8Slice(0, n) : fs.readFileSync(fd, 'utf8');
  } finally {
    fs.closeSync(fd);
  }
}

function receive(id, tool) {
  let answer;
  try {
    answer = decode(read(`${dir}/resp/resp_${id}.json`));
  } catch (err) {
    throw new BridgeClosed('closed', `the answer cannot be read: ${err.code || err.message}`, null, tool);
  }
  if (answer.id !== id) throw new BridgeClosed('closed', 'the answer is not to this call', null, tool);
  acks.push(id);
  if (answer.status === 'ok') return answer.result;
  const Kind = classes.get(answer.class) || ToolError;
  throw new Kind(answer.code, answer.error, answer.details, tool);
}

let randomUUID; // loaded for the first call
const newID = () => (randomUUID ||= require('crypto').randomUUID)();
const answered = (id) => fs.lstatSync(`${dir}/resp/resp_${id}.json`, { throwIfNoEntry: false }) !== undefined;
const gone = () => !fs.existsSync(`${dir}/resp`);

const waiting = new Map(); // id to the function that ends the wait
let watcher = null; // null: not tried yet; undefined: cannot be had
let timer = null;
let pause = FIRST_PAUSE;

function watch() {
  try {
    watcher = fs.watch(`${dir}/resp`, (_, name) => {
      if (name === null) look();
      else if (name.endsWith('.json')) finish(name.slice(5, -5));
    });
    watcher.on('error', () => {
      watcher.close();
      watcher = undefined;
      schedule();
    });
  } catch {
    watcher = undefined;
  }
}

function finish(id) {
  const end = waiting.get(id);
  if (!end) return; // of another process, or known
  waiting.delete(id);
  if (!waiting.size) rest();
  end();
}

function look() {
  const lost = waiting.size > 0 && gone();
  for (const id of [...waiting.keys()]) if (lost || answered(id)) finish(id);
}

function schedule() {
  clearTimeout(timer);
  timer = null;
  if (!waiting.size) return;
  timer = setTimeout(() => {
    look();
    pause = Math.min(pause * 1.5, LAST_PAUSE);
    schedule();
  }, watcher ? LOOK_AGAIN : pause);
}

// rest lets the process end: nobody waits. A timer that is far off stays for
// the next call.
function rest() {
  if (watcher) {
    watcher.unref();
    if (timer) timer.unref();
    return;
  }
  clearTimeout(timer);
  timer = null;
}

async function call(tool, args) {
  const id = newID();
  if (watcher === null) watch();
  const end = new Promise((resolve) => waiting.set(id, resolve));
  try {
    send(id, tool, args);
  } catch (err) {
    waiting.delete(id);
    if (!waiting.size) rest();
    throw err;
  }
  pause = FIRST_PAUSE;
  if (watcher) watcher.ref();
  if (watcher && timer) timer.ref();
  else schedule();
  await end;
  return receive(id, tool);
}

function callSync(tool, args) {
  const id = newID();
  send(id, tool, args);
  const began = performance.now();
  let cell;
  let rest = FIRST_PAUSE;
  while (!answered(id)) {
    if (performance.now() - began < SPIN) continue;
    cell ||= new Int32Array(new SharedArrayBuffer(4));
    Atomics.wait(cell, 0, 0, rest);
    rest = Math.min(rest * 1.5, LAST_PAUSE);
    if (gone()) break;
  }
  return receive(id, tool);
}

// map calls fn for each item, at most width at a time, and gives the results in
// the order of the items.
async function map(fn, items, width = 32) {
  const list = [...items];
  const results = new Array(list.length);
  let next = 0;
  let failed = false;
  const work = async () => {
    while (next < list.length && !failed) {
      const at = next++;
      try {
        results[at] = await fn(list[at]);
      } catch (err) {
        failed = true;
        throw err;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, list.length) }, work));
  return results;
}

function searchTools(text = '') {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return require('./signatures.json')
    .filter(([, about]) => words.every((word) => about.includes(word)))
    .map(([line]) => line);
}

module.exports = {
  call, callSync, map, searchTools,
  ToolError, ToolDenied, ToolInvalidArguments, ToolTimeout, ToolLimit, ToolFailed, BridgeClosed,
};
