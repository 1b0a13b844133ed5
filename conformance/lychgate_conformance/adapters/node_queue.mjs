// `node node_queue.mjs`: a delivery queue and its adapter in one, without any package.
//
// The queue is one append-only log: a line per event, its CRC and then JSON, fsynced before the
// answer. What a crash left of the last line is cut off when the log is opened. A log that has
// grown is written anew beside the old one and renamed; its first line keeps the highest number.
// Node has no flock: what keeps a second instance out is an abstract socket named after the
// directory's inode (Linux), which goes with its process.

import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import readline from "node:readline";

const claims = { profile: "delivery", survives_host_crash: true, uses_path: true };
const capabilities = ["clock", "times", "crash_check"];
const LOG_BYTES_MAX = 1_000; // or twice its size when it was written anew

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const table = Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte >>> 0;
});

function crc32(bytes) { // zlib has it only since Node 20.15
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ((crc ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}

function makeDirectory(directory) { // durable in the one around it, as is the log's name in it
  const above = path.dirname(directory);
  if (!fs.existsSync(above)) makeDirectory(above);
  if (fs.existsSync(directory)) return;
  fs.mkdirSync(directory, { recursive: true });
  sync(above);
}

function sync(file) {
  const fd = fs.openSync(file, "r");
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

function lineOf(event) {
  const said = Buffer.from(JSON.stringify(event));
  return Buffer.concat([Buffer.from(crc32(said) + " "), said, Buffer.from("\n")]);
}

function writeAll(fd, bytes) {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(fd, bytes, at);
}

async function lock(directory) {
  const { dev, ino } = fs.statSync(directory);
  const server = net.createServer();
  await new Promise((resolve, reject) => {
    const locked = () => reject(new Refusal("locked", "another instance has the directory"));
    server.once("error", locked).listen({ path: `\0queue-${dev}-${ino}` }, resolve);
  });
  server.unref(); // it does not keep the process alive
  return server;
}

class Queue {
  static async open(directory, { now_ms }) {
    makeDirectory(path.resolve(directory));
    const queue = new Queue();
    queue.lock = await lock(directory);
    Object.assign(queue, { directory, now_ms, items_: new Map(), high: 0 });
    queue.log = path.join(directory, "log");
    try {
      queue.recover();
    } catch (error) { // who has not got in keeps nobody out
      if (queue.fd !== undefined) fs.closeSync(queue.fd);
      await new Promise((resolve) => queue.lock.close(resolve));
      throw error;
    }
    return queue;
  }

  recover() {
    this.fd = fs.openSync(this.log, "a+", 0o600);
    const bytes = fs.readFileSync(this.log);
    let size = 0;
    for (let end; (end = bytes.indexOf("\n", size)) >= 0; size = end + 1) {
      const event = bytes.subarray(size + 9, end);
      if (bytes.toString("latin1", size, size + 9) !== crc32(event) + " ") break;
      this.apply(JSON.parse(event.toString()));
    }
    if (size < bytes.length) fs.ftruncateSync(this.fd, size);
    fs.fsyncSync(this.fd); // what is shown is durable
    sync(this.directory);
    this.size = size;
  }

  append(event) {
    const line = lineOf(event);
    this.poisoned = true; // until it is written: what ends this early leaves it so
    writeAll(this.fd, line);
    fs.fsyncSync(this.fd);
    this.apply(event);
    this.size += line.length;
    if (this.size > (this.sizeMax ?? LOG_BYTES_MAX)) this.shrink();
    this.poisoned = false;
  }

  shrink() {
    const items = [...this.items_].map(([seq, item]) => ["item", seq, item]);
    const bytes = Buffer.concat([["high", this.high], ...items].map(lineOf));
    const fd = fs.openSync(this.log + ".new", "w", 0o600);
    writeAll(fd, bytes);
    fs.fsyncSync(fd);
    fs.closeSync(fd);
    fs.renameSync(this.log + ".new", this.log);
    sync(this.directory);
    const fresh = fs.openSync(this.log, "a+", 0o600);
    fs.closeSync(this.fd);
    this.fd = fresh;
    this.size = bytes.length;
    this.sizeMax = Math.max(LOG_BYTES_MAX, 2 * this.size);
  }

  apply([what, seq, change]) {
    if (what === "item") this.items_.set(seq, { ...change });
    else if (what === "ack") this.items_.delete(seq);
    else if (what === "set") Object.assign(this.items_.get(seq), change);
    this.high = Math.max(this.high, seq);
  }

  now() {
    return this.now_ms ?? Date.now();
  }

  state({ state, until_ms }) {
    if (state === "quarantined") return state;
    return until_ms <= this.now() ? "available" : { claimed: "leased", waiting: "delayed" }[state];
  }

  enqueue({ payload }) {
    const seq = this.high + 1;
    const item = { state: "waiting", attempts: 0, until_ms: 0, reason: null, payload };
    this.append(["item", seq, item]);
    return { result: "OK", seq };
  }

  claim({ lease_ms }) {
    const found = [...this.items_].sort(([a], [b]) => a - b)
      .find(([, item]) => this.state(item) === "available");
    if (!found) return { result: "EMPTY" };
    const [seq, { payload, attempts }] = found;
    const [receipt, lease_until_ms] = [attempts + 1, this.now() + lease_ms];
    this.append(["set", seq, { state: "claimed", attempts: receipt, until_ms: lease_until_ms }]);
    return { result: "OK", seq, payload, receipt, lease_until_ms };
  }

  end({ seq, receipt }, event) {
    const item = this.items_.get(seq);
    if (!item) return { result: seq > 0 && seq <= this.high ? "ALREADY_DONE" : "NOT_FOUND" };
    if (item.state === "quarantined") return { result: "ALREADY_DONE" };
    if (receipt !== null && receipt !== item.attempts) return { result: "CLAIM_LOST" };
    if (item.state !== "claimed") return { result: "NOT_CLAIMED" };
    this.append(event);
    return { result: "OK" };
  }

  ack(message) {
    return this.end(message, ["ack", message.seq]);
  }

  retry(message) {
    const until_ms = this.now() + message.delay_ms;
    return this.end(message, ["set", message.seq, { state: "waiting", until_ms }]);
  }

  quarantine(message) {
    const { seq, reason } = message;
    return this.end(message, ["set", seq, { state: "quarantined", reason }]);
  }

  items() {
    return [...this.items_].sort(([a], [b]) => a - b)
      .map(([seq, item]) => ({ ...item, seq, state: this.state(item) }));
  }

  clock({ now_ms }) {
    this.now_ms = now_ms;
    return null;
  }

  async close() {
    try {
      fs.closeSync(this.fd);
    } finally {
      await new Promise((resolve) => this.lock.close(resolve));
    }
    return null;
  }
}

const calls = ["enqueue", "claim", "ack", "retry", "quarantine", "items", "clock", "close"];
const queues = new Map();

async function answer(message) {
  const verb = message.do;
  if (verb === "hello") return { protocol: 1, name: "node queue", claims, capabilities };
  if (verb === "open") {
    queues.set(message.store, await Queue.open(message.path, message.options));
    return null;
  }
  if (verb === "crash_check") {
    const queue = await Queue.open(message.path, message.options);
    const items = queue.items();
    await queue.close();
    return { items };
  }
  if (!calls.includes(verb)) throw new Refusal("unsupported", `no verb ${verb}`);
  const queue = queues.get(message.store);
  if (!queue) throw new Refusal("closed", "no such queue");
  if (verb === "close") queues.delete(message.store);
  else if (queue.poisoned)
    throw new Refusal("poisoned", "a write failed, and what the disk holds is not known; reopen");
  return queue[verb](message);
}

function describe(error) {
  if (error instanceof Refusal) return { code: error.code, message: error.message, definite: true };
  const code = error.errno === undefined ? "internal" : "storage";
  const errno = error.errno === undefined ? null : -error.errno;
  return { code, message: error.message, definite: false, errno };
}

const now = () => Number(process.hrtime.bigint());

for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: 0 })) {
  const message = JSON.parse(line);
  const begun = now();
  const reply = { id: message.id };
  try {
    reply.ok = await answer(message);
  } catch (error) {
    reply.error = describe(error);
  }
  reply.t = [begun, now()];
  const bytes = Buffer.from(JSON.stringify(reply) + "\n");
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}
