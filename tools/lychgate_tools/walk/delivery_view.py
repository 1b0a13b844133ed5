"""A graph of module Delivery as the walk needs it, and what is compared with the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lychgate._delivery_codec import Manifest, parse_manifest
from lychgate._delivery_files import LOCK, Log
from lychgate._delivery_ledger import Ledger
from lychgate._delivery_ops import (
    AppendEvent,
    CopyItems,
    OpenMeta,
    OpenSegment,
    RenameMeta,
    TruncateSegment,
    WriteMeta,
)
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._op import Op
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.walk.beside import Labels, View
from lychgate_tools.walk.delivery_cells import (
    Cells,
    Writer,
    file_name,
    letter_of,
    manifest_name,
    model_name,
    place_of,
    records_before,
    segment_cells,
    small_file,
    whole,
)
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.wal_view import items

DIRECTORY = "/q"
LOADING = ("down", "SetMark", "ListQueue", "ReadMeta", "ReadSegment", "corrupt")
"""Where an instance has no memory yet, or none that it would use."""

_METAS = {"man": "manifest", "fmt": "format"}


class DeliveryModel:
    """A graph of Delivery, and its constants."""

    def __init__(self, graph: Graph, config: str) -> None:
        self.graph = graph
        self.room = int(constant(config, "Room"))
        self.segments_max = int(constant(config, "SegMax"))
        self.sequences = tuple(range(1, int(constant(config, "SeqMax")) + 1))
        self.labels = [frozenset(action for action, _ in out) for out in graph.edges]
        self._known: dict[bytes, Cells] = {}  # contents that a crash or somebody has left
        self._views: dict[int, View] = {}

    def value(self, state: int, variable: str) -> Any:
        return self.graph.value(state, variable)

    def pc(self, state: int) -> str:
        return str(self.graph.value(state, "pc"))

    def mem_of(self, state: int, name: str) -> Cells:
        fs = self.value(state, "fs")
        inode = fs["dir"][name]
        cells: Cells = fs["ino"][inode - 1]["mem"] if inode else ()
        return cells

    def names(self, state: int) -> list[str]:
        """The names that are there, in their order."""
        return sorted(name for name, inode in items(self.value(state, "fs")["dir"]) if inode)

    def standing(self, state: int) -> dict[int, str]:
        """Per number of an item its state."""
        return dict(items(self.value(state, "me")["st"]))

    def may_change(self, state: int) -> list[tuple[int, str]]:
        """`Allowed` of the spec: which number may go over into which state."""
        me, found = self.value(state, "me"), list[tuple[int, str]]()
        for s, now in self.standing(state).items():
            if s == me["high"] + 1:
                found.append((s, "p"))
            elif now in ("p", "c"):
                found += [(s, t) for t in ("c", "p", "-", "x", "y") if t == "c" or now == "c"]
        return found

    def fails(self, source: int, target: int) -> bool:
        left, left2 = self.value(source, "left"), self.value(target, "left")
        return bool(left2["fails"] < left["fails"])

    def outcome(self, source: int, target: int) -> str:
        """How a step ended: `out` of the spec."""
        if not self.fails(source, target):
            return "ok"
        return "part" if self._changed(source, target) else "fail"

    def _changed(self, source: int, target: int) -> list[Cells]:
        """The contents that a step has changed."""
        before, after = (self.value(state, "fs")["ino"] for state in (source, target))
        pairs = zip(before, after, strict=True)
        return [new["mem"] for old, new in pairs if new["mem"] and old["mem"] != new["mem"]]

    def change(self, source: int, target: int, out: str) -> tuple[int, str]:
        """Which change an AppendEvent, or the write of a kill, is of."""
        if out == "ok":
            s, t = self.value(target, "me")["ev"]
            return s, t
        allowed = self.may_change(source)
        if out == "part":
            fronts = {cells[-1] for cells in self._changed(source, target)}
            return next((s, t) for s, t in allowed if fronts & {f"i{s}{t}<", f"e{s}{t}<"})
        before, after = dict(items(self.value(source, "may"))), self.value(target, "may")
        grown = [(s, t) for s, t in allowed if t in dict(items(after))[s] - before[s]]
        return grown[0] if grown else next((s, t) for s, t in allowed if t == "c")

    # --- disks ----------------------------------------------------------------------------------

    def files(self, state: int) -> dict[str, bytes]:
        """The bytes of every file in a state in which nobody has it open."""
        found: dict[str, bytes] = {}
        names = self.names(state)
        writers: dict[int, Writer] = {}
        for name in [name for name in names if name[:1] == "g"]:
            generation, number = place_of(name)
            writer = writers.setdefault(generation, Writer(generation))
            found[file_name(name)] = writer.segment(number, self.mem_of(state, name))
        for name in [name for name in names if name[:1] != "g"]:
            cells = self.mem_of(state, name)
            word = next((cell[:-1] for cell in cells if cell != "0"), "F")
            manifest = None if word == "F" else self._manifest(word, found)
            found[file_name(name)] = small_file(cells, manifest)
        for name in names:
            self._known[found[file_name(name)]] = self.mem_of(state, name)
        return found

    def _manifest(self, word: str, files: Mapping[str, bytes]) -> Manifest:
        """The manifest of a record, its boundary where the records are, if they are there."""
        generation, count, high = map(int, word[1:])
        if not count:
            return Manifest(generation, 0, 0, high)
        number = (count + self.room - 1) // self.room
        data = files.get(file_name(f"g{generation}s{number}"), b"")
        for offset in range(1, len(data) + 1):
            manifest = Manifest(generation, number, offset, high)
            if records_before(files, manifest) == count:
                return manifest
        return Manifest(generation, number, 1, high)

    def mark(self, state: int, boot: int) -> bytes | None:
        """What the lock file says; what a crash has made of it is anything but this boot's."""
        said = self.value(state, "mark")
        if said == "lost":
            return clean_mark(f"boot-{boot - 1}") if state % 2 else b""
        marks = {"new": None, "unfinished": UNFINISHED_MARK, "clean": clean_mark(f"boot-{boot}")}
        return marks[said]

    def cells_of(self, name: str, data: bytes, files: Mapping[str, bytes]) -> Cells:
        """What a file of the engine holds."""
        known = self._known.get(data)
        if known is not None:
            return known
        if name[:1] == "g":
            return segment_cells(data, *place_of(name))
        if not data:
            return ()
        manifest = parse_manifest(data)
        if not isinstance(manifest, Manifest):
            return whole(["F"]) if data == small_file(whole(["F"]), None) else ("!",)
        cells = whole([manifest_name(manifest, records_before(files, manifest))])
        self._known[data] = cells
        return cells

    # --- what the model shows -------------------------------------------------------------------

    def view(self, state: int) -> View:
        if state not in self._views:
            fs, labels, found = self.value(state, "fs"), Labels(), dict[str, object]()
            for name in self.names(state):
                found[name] = labels.of(fs["dir"][name]), self.mem_of(state, name)
            pc = self.pc(state)
            found["next step"] = self._next(state, labels)
            found["mark is clean"] = self.value(state, "mark") == "clean"
            if pc not in LOADING:
                me = self.value(state, "me")
                found["memory"] = {
                    **{f"item {s}": standing for s, standing in self.standing(state).items()},
                    **{name: me[name] for name in ("gen", "segs", "last", "high")},
                }
            self._views[state] = found
        return self._views[state]

    def _next(self, state: int, labels: Labels) -> tuple[object, ...]:
        """The next step of the program, with what it is about."""
        fs, me, pc = self.value(state, "fs"), self.value(state, "me"), self.pc(state)
        at = {role: labels.of(inode) if inode else 0 for role, inode in items(fs["fd"])}
        phase, _, step = pc.rpartition(".")
        if phase in _METAS:
            final, staged = _METAS[phase], f"{_METAS[phase]}.tmp"
            if step == "CreateMeta":
                return ("UnlinkMeta" if fs["dir"][staged] else step), staged
            if step == "WriteMeta":
                return step, at["meta"], self._next_meta(state, final)
            metas = {"FsyncMeta": (step, at["meta"]), "RenameMeta": (step, staged, final)}
            return metas.get(step, (step,))
        if pc in ("clean", "retire.UnlinkSegment"):
            stale = [n for n in self.names(state) if n[0] == "g" and place_of(n)[0] != me["gen"]]
            return ("UnlinkSegment", stale[0]) if stale else ("FsyncQueueDir",)
        if pc == "stage.CreateSegment":
            return step, f"g{me['new']}s{me['n']}"
        if pc == "CopyItems":
            part = list(self._snapshot(state))[(me["n"] - 1) * self.room : me["n"] * self.room]
            return pc, at["new"], whole(part)
        if pc == "TruncateSegment":
            return pc, at["seg"], 2 * me["last"]
        files = {"FsyncSegment": "seg", "stage.FsyncSegment": "new", "repair.FsyncSegment": "seg"}
        if pc in files:
            return "FsyncSegment", at[files[pc]]
        return (step,)

    def _snapshot(self, state: int) -> list[str]:
        return [f"i{s}{t}" for s, t in sorted(self.standing(state).items()) if t != "-"]

    def _next_meta(self, state: int, final: str) -> Cells:
        me = self.value(state, "me")
        if final == "format":
            return whole(["F"])
        if me["why"] == "confirm":
            return whole([me["man"]])
        return whole([f"m{me['new']}{len(self._snapshot(state))}{me['high']}"])

    # --- what the engine shows ------------------------------------------------------------------

    def engine_view(
        self, state: int, machine: Machine, fs: SimFs | None, pending: Op[Any] | None, rest: str
    ) -> dict[str, object]:
        """Files, mark and next step of the engine; `rest` says how it stands between calls."""
        labels, found = Labels(), dict[str, object]()
        inodes = dict(machine.directory(DIRECTORY).entries)
        lock = inodes.pop(LOCK, None)
        del inodes[".keep"]
        files = {name: bytes(machine.disk.nodes[inode].data) for name, inode in inodes.items()}
        named = sorted((model_name(name) or f"?{name}", name) for name in files)
        for name, real in named:
            found[name] = labels.of(inodes[real]), self.cells_of(name, files[real], files)
        found["next step"] = (rest,)
        if pending is not None and fs is not None:
            found["next step"] = self._engine_next(state, fs, pending, labels, files)
        mark = b"" if lock is None else bytes(machine.disk.nodes[lock].data)
        found["mark is clean"] = mark == clean_mark(machine.boot)
        return found

    def _engine_next(
        self,
        state: int,
        fs: SimFs,
        op: Op[Any],
        labels: Labels,
        files: Mapping[str, bytes],
    ) -> tuple[object, ...]:
        pc = self.pc(state)
        reads = {"ReadMeta": OpenMeta, "ReadSegment": OpenSegment}
        if pc in reads and (isinstance(op, reads[pc]) or self._has_no_segment(state)):
            return (pc,)
        if pc == "idle" and op.action in self.labels[state]:
            return (pc,)
        if isinstance(op, RenameMeta):
            return op.action, _named(op.old), _named(op.new)
        path, fd = getattr(op, "path", None), getattr(op, "fd", None)
        if path is not None and path != DIRECTORY:
            return op.action, _named(path)
        if fd is None:
            return (op.action,)
        description = fs._fds[fd]
        number = description.node.number
        if isinstance(op, WriteMeta):
            return op.action, labels.of(number), self.cells_of("", op.data, files)
        if isinstance(op, (AppendEvent, CopyItems)):
            name = next(n for n, i in self._entries(fs) if i == number)
            place = place_of(model_name(name) or "")
            before = bytes(description.node.data)
            cells = segment_cells(before + op.data, *place)[len(segment_cells(before, *place)) :]
            return op.action, labels.of(number), cells
        if isinstance(op, TruncateSegment):
            name = next(n for n, i in self._entries(fs) if i == number)
            kept = bytes(description.node.data)[: op.size]
            size = len(segment_cells(kept, *place_of(model_name(name) or "")))
            return op.action, labels.of(number), size
        return (op.action, labels.of(number)) if op.action != "SetMark" else (op.action,)

    def _entries(self, fs: SimFs) -> list[tuple[str, int]]:
        return list(fs._machine.directory(DIRECTORY).entries.items())

    def _has_no_segment(self, state: int) -> bool:
        """Nothing is read then: the engine has no step where the model has ReadSegment."""
        (word,) = {cell[:-1] for cell in self.mem_of(state, "manifest")}
        return not any(name.startswith(f"g{word[1]}s") for name in self.names(state))


def _named(path: str) -> str:
    name = path.rpartition("/")[2]
    return model_name(name) or f"?{name}"


def engine_memory(model: DeliveryModel, log: Log, ledger: Ledger, fs: SimFs) -> View:
    """What an instance knows, in the model's terms."""
    last = 0
    if log.segments:
        segment = log.segments[-1]
        data = bytes(fs._fds[segment.fd].node.data)[: segment.size]
        last = len(segment_cells(data, log.generation, segment.number)) // 2
    standing = {s: "-" for s in model.sequences}
    standing.update((i.sequence, letter_of(i.state, i.reason)) for i in ledger.items.values())
    return {
        **{f"item {s}": letter for s, letter in standing.items()},
        "gen": log.generation,
        "segs": len(log.segments),
        "last": last,
        "high": ledger.high,
    }
