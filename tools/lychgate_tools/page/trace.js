// The trace itself: what stands where after a step, and where the page is. Knows nothing of the
// page; whoever wants to show or to make a trace step by step uses this alone.
"use strict";

const LANES = ["memory", "cache", "disk"];
const EVERY = 200; // steps between two states that are kept

class Trace {
  constructor(data) {
    this.data = data;
    this.steps = data.steps;
    this.kept = [];
    let state = {};
    this.steps.forEach((step, n) => {
      state = Trace.after(state, step);
      if (n % EVERY === 0) this.kept.push(state);
    });
    this.trouble = this.steps.flatMap((step, n) =>
      this.isBroken(n) && !(n && this.isBroken(n - 1)) ? [n] : []);
  }

  // A state is {object: {lane: content}}; a step makes a new one and shares what it leaves alone.
  static after(state, step) {
    if (!step.changes) return state;
    const next = { ...state };
    for (const { object, lane, now } of step.changes)
      next[object] = { ...next[object], [lane]: now };
    return next;
  }

  at(n) {
    if (n < 0) return {};
    let state = this.kept[Math.floor(n / EVERY)];
    for (let k = n - (n % EVERY) + 1; k <= n; k++) state = Trace.after(state, this.steps[k]);
    return state;
  }

  isBroken(n) {
    return (this.steps[n].verdicts || []).includes("broken");
  }

  nextTrouble(n, back = false) {
    const found = back ? this.trouble.filter((it) => it < n).pop()
      : this.trouble.find((it) => it > n);
    return found ?? (back ? this.trouble.at(-1) : this.trouble[0]);
  }

  // Runs of equal verdicts of one invariant: [verdict, first step, how many].
  runs(invariant) {
    const found = [];
    this.steps.forEach((step, n) => {
      const verdict = (step.verdicts || [])[invariant] || "unknown";
      const last = found.at(-1);
      if (last && last[0] === verdict) last[2]++;
      else found.push([verdict, n, 1]);
    });
    return found;
  }

  // The names that lead to an object, as every process sees them.
  namesOf(state, id) {
    return Object.values(state).flatMap((it) =>
      (it.cache || []).filter((p) => p.kind === "name" && p.raw === id).map((p) => p.text));
  }

  label(id) {
    return (this.data.objects.find((it) => it.id === id) || { label: id }).label;
  }

  // How much of what is in the cache a crash would keep.
  static durability(lanes) {
    const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
    const cache = lanes.cache && lanes.cache.filter((it) => it.kind !== "lock");
    const may = (lanes.disk || { may: [null] }).may;
    if (!may.length) return ["not known", "?"];
    if (may.length === 1 && same(may[0], cache)) return ["durable", "●"];
    if (may.some((it) => same(it, cache))) return ["may be lost", "◐"];
    return cache === null && may.length === 1 && may[0] === null ? ["", ""] : ["not on disk", "○"];
  }
}
