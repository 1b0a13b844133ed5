// `node node_adapter.mjs`: an adapter and a store in one, without any package.
//
// The store is one append-only log, `{prefix}log`: a line per change, its CRC and then JSON,
// fsynced before the answer. What a crash left of a line is cut off when the log is opened, or
// skipped for its CRC. Node has no flock, so several processes on one store are not claimed. It
// never shrinks its log.

import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const claims = {
  pending_scope: "all",
  survives_host_crash: true,
  fsync_policy: "always",
  multi_process: false,
  uses_path: true,
  reclaims_space: false,
  exact_numbers: false, // a number is a double here
};
const capabilities = ["sync", "chdir", "times", "crash_check"];

class Refusal extends Error {}

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
  fs.mkdirSync(directory, { recursive: true });
  syncDirectory(above); // where it was there, too: who made it may have died before this
}

function syncDirectory(directory) {
  const fd = fs.openSync(directory, "r");
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}

class Store {
  constructor(directory, { prefix }) {
    if (/[/\0]/.test(prefix)) throw new Refusal("a prefix is the start of a file name");
    makeDirectory(path.resolve(directory));
    this.fd = fs.openSync(path.join(directory, prefix + "log"), "a+", 0o600);
    syncDirectory(directory);
    this.seen = 0;
    this.tasks = new Map();
    this.dead = [];
  }

  catchUp() { // another store of this process may have written to the same log
    const size = fs.fstatSync(this.fd).size;
    if (size === this.seen) return;
    const bytes = Buffer.alloc(size - this.seen);
    for (let at = 0; at < bytes.length; )
      at += fs.readSync(this.fd, bytes, at, bytes.length - at, this.seen + at);
    const whole = bytes.lastIndexOf("\n") + 1;
    if (whole < bytes.length) fs.ftruncateSync(this.fd, this.seen + whole);
    for (let at = 0, end; at < whole; at = end + 1) {
      end = bytes.indexOf("\n", at);
      const change = bytes.subarray(at + 9, end);
      if (bytes.toString("latin1", at, at + 9) === crc32(change) + " ")
        this.apply(JSON.parse(change.toString()));
    }
    this.seen += whole;
  }

  append(change) {
    const said = Buffer.from(JSON.stringify(change));
    const line = Buffer.concat([Buffer.from(crc32(said) + " "), said, Buffer.from("\n")]);
    for (let at = 0; at < line.length; ) at += fs.writeSync(this.fd, line, at);
    fs.fsyncSync(this.fd);
    this.seen += line.length;
    this.apply(change);
  }

  apply([what, subject, ...rest]) {
    if (what === "add") this.tasks.set(subject, rest);
    else if (what === "remove") this.tasks.delete(subject);
    else if (what === "dead") this.dead.push(subject);
    else this.dead = this.dead.filter((it) => !subject.includes(it.task_id));
  }

  add_task({ task, publish_at, task_id }) {
    const id = task_id ?? crypto.randomBytes(12).toString("hex");
    this.append(["add", id, task, publish_at]);
    return id;
  }

  remove_task({ task_id }) {
    if (this.tasks.has(task_id)) this.append(["remove", task_id]);
    return null;
  }

  pending_tasks() {
    return [...this.tasks].map(([task_id, [task, publish_at]]) => ({ task_id, task, publish_at }));
  }

  add_dead_task({ task_id, context, exception, task_class, attempts }) {
    const [error_class, error_message] = [exception.class, exception.message ?? ""];
    const failed_at = Date.now() / 1000;
    this.append(["dead", {
      task_id, task_class, attempts, context,
      error_class, error_message, failed_at, enqueued_at: null,
    }]);
    return null;
  }

  list_dead_tasks({ limit, offset }) {
    return this.dead.slice(offset, limit === null ? undefined : offset + limit);
  }

  find_dead_task({ task_id }) {
    return this.dead.findLast((it) => it.task_id === task_id) ?? null;
  }

  remove_dead_tasks({ task_ids }) {
    const wanted = new Set(task_ids);
    const found = new Set(this.dead.map((it) => it.task_id).filter((it) => wanted.has(it)));
    if (found.size) this.append(["remove-dead", [...found]]);
    return found.size;
  }

  sync() {
    return null; // every change is durable when it is answered
  }
}

const calls = Object.getOwnPropertyNames(Store.prototype).filter((it) => /_|sync/.test(it));
const stores = new Map();

function answer(message) {
  const verb = message.do;
  if (verb === "hello") return { protocol: 1, name: "node log", claims, capabilities };
  if (verb === "open") {
    stores.set(message.store, new Store(message.path, message.options));
    return null;
  }
  if (verb === "chdir") {
    process.chdir(message.path);
    return null;
  }
  if (verb === "crash_check") {
    const store = new Store(message.path, message.options);
    store.catchUp();
    fs.closeSync(store.fd);
    return { pending: store.pending_tasks(), dead: store.dead };
  }
  if (verb !== "close" && !calls.includes(verb))
    throw Object.assign(new Refusal(`no verb ${verb}`), { code: "unsupported" });
  const store = stores.get(message.store);
  if (!store) throw Object.assign(new Refusal("no such store"), { code: "closed" });
  if (verb === "close") {
    fs.closeSync(store.fd);
    stores.delete(message.store);
    return null;
  }
  store.catchUp();
  return store[verb](message);
}

function describe(error, verb) {
  if (error instanceof Refusal) {
    const code = error.code ?? (verb === "open" ? "bad_option" : "refused");
    return { code, message: error.message, definite: true };
  }
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
    reply.ok = answer(message);
  } catch (error) {
    reply.error = describe(error, message.do);
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
