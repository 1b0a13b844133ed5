// The page: rows, the step in hand, crashes, keys and the address. `Trace` has the facts.
"use strict";

const HEIGHT = 30; // of a row, as in the style
const AROUND = 12; // rows kept above and below those in sight
const LANE_NAMES = { memory: "process memory", cache: "OS cache", disk: "disk" };
const KINDS = {
  call: "call", write: "write", sync: "sync", name: "name", lock: "lock", read: "read", open: "open",
  return: "return", crash: "crash or kill",
};
const SIGNS = {
  torn: (it) => `${it.text.endsWith(" bytes") ? "" : it.text} …torn`, nul: (it) => `NUL ×${it.text}`, bad: (it) => `✕ ${it.text}`,
  removal: (it) => `− ${it.text}`, handle: (it) => `open in ${it.text}`,
  lock: (it) => `locked by ${it.text}`, buffer: (it) => `to write: ${it.text}`,
};
const WORDS = { holds: "holds", broken: "BROKEN", unknown: "not judged" };

const trace = new Trace(JSON.parse(document.getElementById("trace").textContent));
const { meta, workers, invariants, lesson } = trace.data;
const sources = Object.fromEntries(trace.data.sources.map((it) => [it.id, it]));
const $ = (id) => document.getElementById(id);
const here = { step: 0, outcome: 0, source: "" };
const built = new Map(); // the rows that exist, by step

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((it) => it !== "" && it !== null && it !== undefined));
  return made;
}

// --- pieces and lanes ---------------------------------------------------------------------------

function pieceOf(it) {
  const text = it.kind === "name" ? `${it.text} → ${trace.label(it.raw)}`
    : (SIGNS[it.kind] || ((one) => one.text))(it);
  const title = it.raw && it.kind !== "name" ? it.raw : undefined;
  return el("span", { class: `piece ${it.kind}`, title }, text);
}

function piecesOf(pieces) {
  if (pieces === null || pieces === undefined) return el("span", { class: "quiet" }, "nothing");
  if (!pieces.length) return el("span", { class: "quiet" }, "empty");
  return el("div", { class: "pieces" }, ...pieces.map(pieceOf));
}

// The pieces of `from` that `to` has not, each as often as it is missing.
function missing(from, to) {
  const left = (to || []).map((it) => JSON.stringify(it));
  return (from || []).filter((it) => {
    const at = left.indexOf(JSON.stringify(it));
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

// A changed content: what is new is marked, what went stands below.
function changeOf(before, now) {
  const fresh = missing(now, before), gone = missing(before, now);
  const shown = piecesOf(now);
  (now || []).forEach((it, n) => {
    if (before && fresh.includes(it)) shown.children[n].classList.add("fresh");
  });
  const rest = gone.length
    ? el("div", { class: "was" }, el("small", {}, "no longer"), piecesOf(gone)) : "";
  return [shown, rest];
}

function diskOf(disk) {
  const may = (disk || { may: [null] }).may;
  if (may.length < 2) return may.length ? [piecesOf(may[0])] : [];
  const rows = may.map((it, n) =>
    el("div", { class: "or" }, el("small", {}, n ? "or" : ""), piecesOf(it)));
  return disk.more ? [...rows, el("div", { class: "quiet" }, `and ${disk.more} more`)] : rows;
}

function laneOf(lane, lanes, before, changed, into) {
  const [durable, sign] = Trace.durability(lanes);
  const head = el("h4", {}, el("span", {}, LANE_NAMES[lane]),
    lane === "disk" && sign ? el("span", {}, `${sign} ${durable}`) : "");
  const content = lane === "disk" ? diskOf(lanes.disk)
    : lane === "memory" && !(lanes.memory || []).length ? [el("span", { class: "quiet" }, "–")]
      : changed ? changeOf(before[lane], lanes[lane]) : [piecesOf(lanes[lane])];
  const style = `${changed ? "changed" : ""} ${into ? "into" : ""}`.trim();
  return el("div", { class: style || undefined }, head, ...content);
}

function fileOf(id, state, before, step) {
  const lanes = state[id] || {}, names = trace.namesOf(state, id);
  const moves = (step.moves || []).filter((it) => it[0] === id);
  const changed = (lane) => (step.changes || []).some((it) => it.object === id && it.lane === lane);
  const isFile = trace.data.objects.find((it) => it.id === id).kind === "file";
  const unnamed = isFile ? "no name leads here" : "";
  return el("article", { class: "file" },
    el("header", {}, el("strong", {}, names.join(", ") || trace.label(id)),
      el("small", {}, names.length ? (isFile ? trace.label(id) : "directory") : unnamed),
      ...moves.map(([, from, to]) =>
        el("span", { class: "moved" }, `${LANE_NAMES[from]} → ${LANE_NAMES[to]}`))),
    el("div", { class: "three" }, ...LANES.map((lane) =>
      laneOf(lane, lanes, before[id] || {}, changed(lane), moves.some((it) => it[2] === lane)))));
}

// --- the step in hand ---------------------------------------------------------------------------

function workerOf(step) {
  const found = workers.find((it) => it.id === step.worker);
  return found ? found.label : "the world";
}

function show() {
  const n = here.step, step = trace.steps[n];
  const state = trace.at(n), before = trace.at(n - 1);
  $("now").replaceChildren(el("span", { class: "n" }, String(n)), step.action,
    trace.isBroken(n) ? el("span", { class: "bad" }, "  ✗ broken") : "");
  $("what").textContent = [step.kind === "begin" ? "" : workerOf(step), step.call,
    step.variant && `replaced by ${step.variant}`].filter(Boolean).join(" · ");
  $("says").textContent = step.says || "";
  const touched = [...new Set((step.changes || []).map((it) => it.object))];
  const isThere = (it) => it && (it.cache || (it.memory || []).length
    || it.disk?.may.some((one) => one));
  const all = trace.data.objects.map((it) => it.id).filter((id) => isThere(state[id]));
  const whole = $("full").checked || n === 0 || trace.isBroken(n);
  const shown = whole ? all : touched;
  $("files").replaceChildren(...shown.map((id) => fileOf(id, state, before, step)));
  if (!shown.length && all.length)
    $("files").append(el("p", { class: "quiet" }, "No file changes in this step."));
  showCrash(step);
  showNext(step);
  showSource(step);
  $("place").textContent = `step ${n} of ${trace.steps.length - 1}`;
  for (const mark of document.querySelectorAll(".track b"))
    mark.style.left = `${(100 * (n + 0.5)) / trace.steps.length}%`;
}

function showCrash(step) {
  const crash = step.crash;
  if (!crash) return $("crash").replaceChildren();
  const few = crash.outcomes.length;
  const count = `${crash.images} ${crash.images === 1 ? "image" : "images"}`;
  const kill = step.kind === "kill";
  const head = kill ? "What the kernel keeps" : crash.happens ? "What the crash may leave"
    : "If the power failed here";
  const text = kill ? "A process that ends loses its memory, and nothing that it has written."
    : `${count} ${crash.images === 1 ? "is" : "are"} legal; ${few} `
    + `${few === 1 ? "looks" : "look"} different${crash.partial ? ` (partial: ${crash.partial})` : ""}.`;
  here.outcome = Math.min(here.outcome, few - 1);
  const one = crash.outcomes[here.outcome];
  $("crash").replaceChildren(el("h3", {}, head), el("p", { class: "quiet" }, text),
    el("div", { class: "outcomes", role: "group", "aria-label": "outcomes" },
      ...crash.outcomes.map((it, n) => el("button", {
        type: "button", "aria-pressed": String(n === here.outcome), onclick: () => pick(n),
      }, `${signOf(it.holds)} ${it.label}${it.images > 1 ? ` ×${it.images}` : ""}`
        + `${it.taken ? " (taken here)" : ""}`))),
    outcomeOf(one));
}

const signOf = (holds) => (holds === null ? "·" : holds ? "✓" : "✗");

function outcomeOf(it) {
  const tone = it.holds === null ? "quiet" : it.holds ? "good" : "bad";
  const rows = it.files.flatMap((file) => [el("dt", {}, file.name),
    el("dd", {}, piecesOf(file.pieces))]);
  return el("div", { class: `outcome ${it.holds === false ? "fails" : ""}`, id: "outcome" },
    el("strong", { class: tone }, `${signOf(it.holds)} ${it.verdict || "not judged"}`),
    rows.length ? el("dl", {}, ...rows) : el("p", { class: "quiet" }, "The directory is empty."));
}

function pick(n) {
  const { outcomes } = trace.steps[here.step].crash;
  here.outcome = (n + outcomes.length) % outcomes.length;
  showCrash(trace.steps[here.step]);
  const it = outcomes[here.outcome];
  $("live").textContent = `outcome ${here.outcome + 1}: ${it.label}; ${it.verdict}`;
}

function showNext(step) {
  const items = (step.next || []).map((it) =>
    el("li", {}, el("span", { class: "quiet" }, it.worker || "the world"), " ", it.action));
  $("next").replaceChildren(...(items.length
    ? [el("h3", {}, "What can happen next"), el("ul", {}, ...items)] : []));
}

function showSource(step) {
  const ids = Object.values(step.links || {});
  const open = ids.includes(here.source) || here.source.startsWith("strip") ? here.source : "";
  const id = open.replace(/^strip /, "");
  const links = ids.map((it) => el("button", {
    type: "button", "aria-expanded": String(it === id), onclick: () => openSource(it),
  }, `${sources[it].kind}: ${sources[it].path}:${sources[it].line}`));
  const found = sources[id];
  $("source").replaceChildren(...(links.length || found ? [el("h3", {}, "Spec and engine"),
    el("div", { class: "outcomes" }, ...links), found ? excerpt(found) : ""] : []));
}

function openSource(id) {
  here.source = here.source === id ? "" : id;
  showSource(trace.steps[here.step]);
}

function excerpt(it) {
  const lines = it.text.split("\n").map((text, n) => {
    const line = `${String(it.first + n).padStart(4)}  ${text}`;
    return it.first + n === it.line ? el("mark", {}, line) : `${line}\n`;
  });
  return el("pre", { class: "source", id: "excerpt", tabindex: "0",
    "aria-label": `${it.path}, line ${it.line}` }, ...lines);
}

// --- rows, as many as are in sight --------------------------------------------------------------

function rowOf(n) {
  const step = trace.steps[n], broken = trace.isBroken(n);
  const shape = () => el("span", { class: `shape ${step.kind}` });
  const lanes = workers.map((it) => el("i", {}, it.id === step.worker ? shape() : ""));
  if (!workers.some((it) => it.id === step.worker) && lanes.length) lanes[0].append(shape());
  const world = !step.worker && ["crash", "kill"].includes(step.kind);
  const early = n < (meta.begin || 0);
  return el("div", {
    class: `row ${world ? "world" : ""} ${early ? "early" : ""}`, role: "row",
    "aria-rowindex": n + 1, "aria-current": n === here.step ? "step" : undefined,
    style: `top:${n * HEIGHT}px`, onclick: () => go(n),
  }, el("span", { class: "n", role: "cell" }, String(n)),
  el("span", { class: "lanes", role: "cell", "aria-label": workerOf(step) }, ...lanes),
  el("span", { class: "text", role: "cell" }, step.action, step.says ? el("span", {}, step.says) : ""),
  el("span", { class: "flag", role: "cell", "aria-label": broken ? "broken" : undefined },
    broken ? "✗" : ""));
}

function rows() {
  const box = $("rows"), first = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - AROUND);
  const last = Math.min(trace.steps.length,
    Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + AROUND);
  if (!box.firstChild)
    box.append(el("div", { style: `height:${trace.steps.length * HEIGHT}px`, role: "presentation" }));
  for (const [n, row] of built) {
    if (n < first || n >= last) {
      row.remove();
      built.delete(n);
    } else if (n === here.step) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }
  for (let n = last - 1; n >= first; n--) { // from below, so that rows stand in their order
    if (built.has(n)) continue;
    built.set(n, rowOf(n));
    box.insertBefore(built.get(n), built.get(n + 1) || null);
  }
}

function reveal(n) {
  const box = $("rows"), top = n * HEIGHT;
  if (!box.firstChild) rows();
  if (top < box.scrollTop + HEIGHT) box.scrollTop = Math.max(0, top - 2 * HEIGHT);
  else if (top > box.scrollTop + box.clientHeight - 2 * HEIGHT)
    box.scrollTop = top - box.clientHeight + 3 * HEIGHT;
}

// --- going about --------------------------------------------------------------------------------

function go(n, address = true) {
  here.step = Math.max(0, Math.min(trace.steps.length - 1, n));
  here.outcome = 0;
  if (address) history.replaceState(null, "", `#step=${here.step}`);
  reveal(here.step);
  rows();
  show();
  const step = trace.steps[here.step];
  $("live").textContent = [`step ${here.step}`, workerOf(step), step.action, step.says,
    trace.isBroken(here.step) ? "broken" : ""].filter(Boolean).join(", ");
}

function fromAddress() {
  const found = /(?:^#|&)step=(\d+)/.exec(location.hash);
  if (found) go(Number(found[1]), false);
  return Boolean(found);
}

const MOVES = {
  first: () => 0, back: () => here.step - 1, on: () => here.step + 1,
  last: () => trace.steps.length - 1, violation: () => trace.nextTrouble(here.step) ?? here.step,
};
const KEYS = {
  ArrowLeft: MOVES.back, ArrowUp: MOVES.back, k: MOVES.back, ArrowRight: MOVES.on,
  ArrowDown: MOVES.on, j: MOVES.on, Home: MOVES.first, End: MOVES.last, n: MOVES.violation,
  N: () => trace.nextTrouble(here.step, true) ?? here.step,
  PageUp: () => here.step - 10, PageDown: () => here.step + 10,
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select, pre")) return;
  if (KEYS[event.key]) go(KEYS[event.key]());
  else if (event.key === "f") { $("full").checked = !$("full").checked; show(); }
  else if ("oO".includes(event.key) && trace.steps[here.step].crash)
    pick(here.outcome + (event.key === "o" ? 1 : -1));
  else return;
  event.preventDefault();
}

// --- what stands still --------------------------------------------------------------------------

function strip() {
  invariants.forEach((it, n) => {
    const track = el("div", {
      class: "track", role: "img",
      "aria-label": `${it.name}: ${trace.runs(n).map(([v, at]) => `${WORDS[v]} from step ${at}`)}`,
      onclick: (event) => {
        const box = track.getBoundingClientRect();
        go(Math.floor(((event.clientX - box.left) / box.width) * trace.steps.length));
      },
    }, ...trace.runs(n).map(([verdict, , length]) =>
      el("i", { class: verdict, style: `flex:${length} ${length} 0` })), el("b"));
    const name = it.source && sources[it.source]
      ? el("button", { type: "button", class: "name", title: it.about,
        onclick: () => { here.source = `strip ${it.source}`; show(); $("source").scrollIntoView(); },
      }, it.name) : el("span", { class: "name", title: it.about }, it.name);
    $("strip").append(name, track);
  });
}

function still() {
  const words = { tlc: "counter-example of TLC", lab: "run of the crash lab",
    litmus: "litmus program", conformance: "conformance failure", engine: "trace of the engine" };
  const model = meta.model ? `, ${meta.model} model` : "";
  $("kicker").textContent = `${lesson ? `Lesson: ${lesson.name} · ` : ""}${words[meta.source]}${model}`;
  const tone = meta.holds === null ? "note" : meta.holds ? "good" : "bad";
  $("verdict").className = `verdict ${tone}`;
  $("verdict").textContent = `${meta.holds === null ? "●" : meta.holds ? "✓" : "✗"} ${meta.verdict}`;
  $("command").replaceChildren(...(meta.command ? ["Made by ", el("code", {}, meta.command), "."] : []));
  if (lesson) {
    $("question").textContent = lesson.question;
    $("question").hidden = $("lesson").hidden = false;
    $("lesson").append(el("h2", {}, "The rule"), el("p", {}, lesson.rule),
      el("h3", {}, "What guards it"), el("ul", {}, ...lesson.guards.map((it) => el("li", {},
        `${it.kind} `, el("code", {}, it.name), it.command ? ": " : "",
        it.command ? el("code", {}, it.command) : ""))),
      el("h3", {}, "On real files"), el("p", {}, el("code", {}, lesson.run)));
  }
  $("rows").setAttribute("aria-rowcount", trace.steps.length);
  const longest = Math.max(2, ...workers.map((it) => it.id.length));
  document.body.style.setProperty("--workers", Math.max(1, workers.length));
  document.body.style.setProperty("--lane", `${0.45 * longest + 0.6}rem`);
  $("head").append(el("span"), el("span", { class: "lanes" },
    ...workers.map((it) => el("span", {}, it.id))), el("span", {}, "step"));
  const kinds = new Set(trace.steps.map((it) => (it.kind === "kill" ? "crash" : it.kind)));
  $("legend").append(...Object.entries(KINDS).filter(([kind]) => kinds.has(kind)).map(([kind, name]) =>
    el("li", {}, el("span", { class: `shape ${kind}` }), name)));
  document.querySelector("[data-go=violation]").hidden = !trace.trouble.length;
}

function table() {
  if ($("table").firstChild) return;
  const heads = ["step", "worker", "action", "what", ...invariants.map((it) => it.name)];
  const body = trace.steps.map((step, n) => el("tr", {}, el("td", {}, String(n)),
    el("td", {}, step.kind === "begin" ? "" : workerOf(step)), el("td", {}, step.action),
    el("td", {}, [step.says, ...(step.moves || []).map(([id, from, to]) =>
      `${trace.label(id)}: ${LANE_NAMES[from]} → ${LANE_NAMES[to]}`)].filter(Boolean).join("; ")),
    ...invariants.map((_, k) => el("td", {}, WORDS[(step.verdicts || [])[k] || "unknown"]))));
  $("table").append(el("table", {}, el("thead", {}, el("tr", {},
    ...heads.map((it) => el("th", { scope: "col" }, it)))), el("tbody", {}, ...body)));
}

function download() {
  const text = document.getElementById("trace").textContent;
  $("download").href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
}

document.querySelector("main").hidden = $("strip").hidden = false;
still();
strip();
$("rows").addEventListener("scroll", () => requestAnimationFrame(rows), { passive: true });
$("buttons").addEventListener("click", (event) => {
  const named = event.target.closest("button")?.dataset.go;
  if (named) go(MOVES[named]());
});
$("full").addEventListener("change", show);
$("download").addEventListener("click", download);
$("all").addEventListener("toggle", () => $("all").open && table());
addEventListener("beforeprint", () => { table(); $("all").open = true; });
addEventListener("resize", rows);
addEventListener("keydown", onKey);
addEventListener("hashchange", fromAddress);
if (!fromAddress()) go(meta.begin || 0, false);
