"""A counter-example of TLC as a document.

Modules over `FileSystem.tla` have files: their variable `fs` says what the cache shows and what a
crash may leave, so that lanes are read off it, and outcomes (`tlc_crashes`). Modules without files
(Queue, Sql) are shown by what changes in their variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lychgate_tools.manifest import Model
from lychgate_tools.page import pieces as shown
from lychgate_tools.page import tlc_crashes
from lychgate_tools.page.calls import call_of, is_step, kind_of
from lychgate_tools.page.document import (
    BROKEN,
    HOLDS,
    SHOWN_MAX,
    UNKNOWN,
    Builder,
    Document,
    Lanes,
    Piece,
    Step,
    piece,
)
from lychgate_tools.page.sources import Sources
from lychgate_tools.page.tlc_crashes import entries, numbered, ordered
from lychgate_tools.spec_dir import Spec
from lychgate_tools.spec_text import read_module
from lychgate_tools.tlc import cfg
from lychgate_tools.tlc.output import TraceState, Verdict
from lychgate_tools.tlc.values import Fn, render
from lychgate_tools.trace_text import differences

_CHANGES_MAX = 8
_DIRECTORY = "dir"


def document(spec: Spec, model: Model, verdict: Verdict) -> Document:
    """The document of a model's counter-example."""
    return builder(spec, model, verdict).document_with_sources()


class TlcBuilder(Builder):
    """A builder that knows what the model says of a state."""

    def __init__(self, spec: Spec, model: Model, config: str, **meta: Any) -> None:
        super().__init__(**meta)
        self.modules = spec.modules()
        self.sources = Sources(self.modules)
        self.checked = [
            name for name in cfg.parse(config).checked
            if any(name in read_module(it).definitions for it in self.modules.values())
        ]  # fmt: skip
        self.recovers = model.module == "JournalBroken" and "Seen <- LiveSeen" not in config

    def document_with_sources(self) -> Document:
        return self.document(self.sources.as_json())


def builder(
    spec: Spec, model: Model, verdict: Verdict, title: str = "", says: str = "", config: str = ""
) -> TlcBuilder:
    """The builder with all steps in it, for callers that add a lesson. `says` is the verdict where
    TLC's words are not enough, `config` the model file where it is not the model's own."""
    assert verdict.trace, "a counter-example has states"
    words = says or f"{verdict.violated} is broken after {len(verdict.trace) - 1} steps."
    if verdict.loop_to is not None and not says:
        rest = f"goes on from step {verdict.loop_to - 1} again" if verdict.loop_to else "stays so"
        words = f"{verdict.violated} is broken: the trace {rest} for ever."
    made = TlcBuilder(
        spec,
        model,
        config or spec.config(model.config),
        title=title or model.name,
        verdict=words,
        holds=False,
        source="tlc",
        name=model.name,
        about=model.about,
        command=f"lychgate check --trace {model.name}",
    )
    for name in made.checked:
        made.invariant(name, name, made.sources.definition(name, made.modules))
    before: Mapping[str, Any] = {}
    for number, state in enumerate(verdict.trace):
        last = number == len(verdict.trace) - 1
        broken = verdict.violated if last and verdict.violated in made.checked else ""
        _add(made, before, state, broken)
        before = state.values
    outcomes = made.steps[-1].get("crash", {}).get("outcomes", [])
    lost = next((it["verdict"] for it in outcomes if it["holds"] is False), "")
    if lost and not says:
        made.meta["verdict"] = f"{words.rstrip('.')}: {lost}."
    return made


def _add(
    made: TlcBuilder, before: Mapping[str, Any], state: TraceState, broken: str
) -> None:
    worker = _worker(made, before, state.values)
    planned = _pc_at(before, worker)
    action, variant = state.action, ""
    if state.action == "Initial predicate":
        action = "Begin"
    elif planned and planned != state.action and is_step(planned) and not is_step(state.action):
        if kind_of(state.action) == "other":
            action, variant = planned, state.action
    kind = "begin" if action == "Begin" else kind_of(action)
    if action == "Finished":
        kind = "other"
    verdicts = [
        BROKEN if name == broken else UNKNOWN if broken else HOLDS for name in made.checked
    ]
    fs = state.values.get("fs")
    lanes = _lanes(made, state.values) if isinstance(fs, Fn) else {}
    crash = None
    if isinstance(fs, Fn):
        happened = before.get("fs") if kind == "crash" and before else None
        taken = fs if happened else None
        crash = tlc_crashes.crash(happened or fs, state.values, taken, made.recovers)
    links = made.sources.links(variant or action, state.module) if kind != "begin" else {}
    if variant:
        links = made.sources.links(action) | links
    step = Step(
        action,
        kind,
        worker,
        call_of(action),
        _says(before, state.values, worker, kind, bool(lanes)),
        variant,
        _next(state.values),
        verdicts,
        crash,
        links,
    )
    made.add(step, lanes)


# --- who, and what is said --------------------------------------------------------------------


def _positions(values: Mapping[str, Any]) -> dict[str, tuple[Any, Any, str]]:
    """Everybody with a program counter: worker, fiber, next step; by `w1`, or `w1.f2` where
    workers have several fibers."""
    pc = values.get("pc")
    if isinstance(pc, str):
        return {"w": ("", "", pc)}
    found: dict[str, tuple[Any, Any, str]] = {}
    if not isinstance(pc, Fn):
        return found
    for who in ordered(pc):
        fibers = pc[who] if isinstance(pc[who], Fn) else Fn([("", pc[who])])
        for fiber in ordered(fibers):
            label = _word(who) if len(fibers) < 2 else f"{_word(who)}.{_word(fiber)}"
            found[label] = who, fiber, _word(fibers[fiber])
    return found


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return ".".join(_word(it) for it in value)
    return value if isinstance(value, str) else render(value)


def _worker(made: Builder, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Whose program counter has moved; the first of those that moved together."""
    now, then = _positions(after), _positions(before)
    for label in now:
        made.worker(label, "the worker" if label == "w" else label)
    if list(now) == ["w"]:
        return "w" if before else ""
    moved = [it for it, (_, _, at) in now.items() if it in then and then[it][2] != at]
    owners = {_word(now[it][0]) for it in moved}
    return moved[0] if len(owners) == 1 else ""


def _pc_at(values: Mapping[str, Any], worker: str) -> str:
    return _positions(values).get(worker, ("", "", ""))[2]


def _next(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The steps that the program counters are at, and the faults that are left."""
    words = {"idle": "a call", "down": "Restart"}
    found = [(it, words.get(at, at)) for it, (_, _, at) in _positions(values).items()]
    left = values.get("left")
    if isinstance(left, Fn):
        faults = (("kills", "a kill"), ("crashes", "a host crash"), ("fails", "a fault"))
        for name, action in faults:
            if left.get(name, 0) and left.get("faults", 1):
                found.append(("", action))
    return found


def _says(
    before: Mapping[str, Any], after: Mapping[str, Any], worker: str, kind: str, has_files: bool
) -> str:
    """In words: calls, returns, what a caller knows now; without files, whatever changes."""
    if not before:
        return ""
    found = []
    old, new = _job(before, worker), _job(after, worker)
    if new.get("op") and not old.get("op"):
        found.append(f"calls {new['op']}({new.get('rec', '')})".replace("()", ""))
    known, was = after.get("known"), before.get("known")
    if isinstance(known, Fn) and isinstance(was, Fn):
        words = {"present": "is acknowledged", "absent": "is promised to be absent",
                 "adding": "may be there", "removing": "may be gone"}  # fmt: skip
        for record in sorted(known):
            if known[record] != was[record]:
                found.append(f"{record} {words.get(known[record], known[record])}")
    if old.get("op") and not new.get("op") and kind not in ("kill", "crash"):
        found.insert(0, f"{old['op']} returns")
    if not has_files:
        parts = [
            f"{name}{path}: {render(left)} -> {render(right)}"
            for name in sorted(after)
            for path, left, right in differences(before.get(name), after[name])
            if name != "pc"
        ]
        found += parts[:_CHANGES_MAX]
    return "; ".join(found)


def _job(values: Mapping[str, Any], worker: str) -> Mapping[str, Any]:
    """The locals of whoever `worker` is."""
    job: Any = values.get("job")
    who, fiber, _ = _positions(values).get(worker, ("", "", ""))
    for key in (who, fiber):
        job = job[key] if isinstance(job, Fn) and key in job else job
    return job if isinstance(job, Fn) and "op" in job else {}


# --- lanes ------------------------------------------------------------------------------------


def _lanes(made: Builder, values: Mapping[str, Any]) -> dict[str, Lanes]:
    fs = values["fs"]
    made.object(_DIRECTORY, "directory", "directory")
    names = [_entries(fs["dir"]), *(_entries(it) for it in ordered(fs["dirs"]))]
    found = {_DIRECTORY: Lanes((), names[0], tuple(names[1:]))}
    named = {number for it in (fs["dir"], *fs["dirs"]) for _, number in entries(it)}
    inodes = fs["ino"]
    handles = _handles(values)
    for number, inode in numbered(inodes).items():
        held = handles.get(number, [])
        if number not in named and not held:
            continue
        name = made.object(f"i{number}", "file", f"inode {number}")
        cache = shown.of_cells(inode["mem"])
        locks = [it for it in held if it["kind"] == "lock"]
        disk = [shown.of_cells(image[0]) for image in ordered(inode["disk"])]
        distinct = [it for n, it in enumerate(disk) if it not in disk[:n]]
        memory = [it for it in held if it["kind"] != "lock"]
        memory += _buffered(values, number)
        found[name] = Lanes(
            tuple(memory), cache + locks, tuple(distinct[:SHOWN_MAX]),
            max(0, len(distinct) - SHOWN_MAX),
        )  # fmt: skip
    return found


def _entries(directory: Any) -> list[Piece]:
    return shown.names_of([(name, f"i{number}") for name, number in entries(directory)])


def _handles(values: Mapping[str, Any]) -> dict[int, list[Piece]]:
    """Per inode, who has it open, and who holds its lock."""
    fs, found = values["fs"], dict[int, list[Piece]]()
    if "fd" not in fs:
        return found
    for fd in sorted(fs["fd"]):
        number = fs["fd"][fd]
        if number:
            owners = _owners(values, fd)
            found.setdefault(number, []).append(piece("handle", owners, f"description {fd}"))
            if fd in fs["lk"]:
                found[number].append(piece("lock", owners))
    return found


def _owners(values: Mapping[str, Any], fd: str) -> str:
    lock, inherited = values.get("lock"), values.get("inherited")
    owners = []
    if isinstance(lock, Fn):
        owners = [who for who in sorted(lock) if lock[who] == fd]
        if isinstance(inherited, Fn):
            owners += [who for who in sorted(inherited) if inherited[who] == fd]
        owners += [who for who in sorted(lock) if fd.startswith(who)]
    owner, dot, _ = fd.partition(".")
    return " and ".join(owners) or (owner if dot else "w")


def _buffered(values: Mapping[str, Any], number: int) -> list[Piece]:
    """What a worker is about to write to an inode."""
    fs, job, pc = values["fs"], values.get("job"), values.get("pc")
    found: list[Piece] = []
    if isinstance(pc, str) and isinstance(job, Fn):
        if fs["fd"].get("s" if pc == "JWrite" else "d") == number and pc in ("JWrite", "JCut",
                                                                           "JFill"):  # fmt: skip
            found += _as_buffer(job["fill"])
    elif isinstance(pc, Fn) and isinstance(job, Fn):
        for who in sorted(pc):
            for fiber in sorted(pc[who]) if isinstance(pc[who], Fn) else []:
                at, end = pc[who][fiber], {"WriteStaging": "s", "AppendRecord": "d"}
                fd = f"{who}{fiber}{end.get(at, '?')}"
                if fs["fd"].get(fd) == number:
                    found += _as_buffer(job[who][fiber]["buf"])
    return found


def _as_buffer(cells: Any) -> list[Piece]:
    return [piece("buffer", it["text"]) for it in shown.of_cells(cells)]
