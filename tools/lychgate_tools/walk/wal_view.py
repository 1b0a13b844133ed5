"""A graph of module Wal as the walk needs it, and what is compared with the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lychgate._ops import AppendWal, CloseWal, CreateWal
from lychgate_conformance.lab._disk import Machine

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.tlc.values import Fn
from lychgate_tools.walk.beside import Labels, Steps, View, changed
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch
from lychgate_tools.walk.wal_lines import TORN, WalCells
from lychgate_tools.walk.wal_worker import DIRECTORY, WalCall, WalWorker

ROLES = ("own", "new", "cur")
BETWEEN_CALLS = ("idle", "dropped.FsyncWalDir")
REPEATED = ("retire.UnlinkWal", "drop.UnlinkWal", "settle.FsyncWalDir")
"""Steps that are taken again by the next call when they fail."""
_ROLE_OF_PHASE = {
    "skip": "cur", "merge": "cur", "retire": "cur", "quit": "cur",
    "new": "new", "lost": "new", "drop": "new", "discard": "new",
    "add": "own", "ack": "own", "close": "own",
}  # fmt: skip
_ROLE_OF_STEP = {
    "start.ClaimTry": "cur", "start.ClaimCheck": "cur", "start.ReadWal": "cur",
    "merge.CopyWal": "own", "merge.FsyncWal": "own",
    "rotate.ReadWal": "own", "rotate.CopyWal": "new", "rotate.FsyncWal": "new",
}  # fmt: skip
_WITHOUT_MEMORY = ("down", "quit", "quit.CloseWal")
"""Gone, or of no more use: a start that failed gives no object to anybody."""
_WITHOUT_ROLE = ("FsyncWalDir", "CreateWal", "ClaimOpen", "ListWals")


class WalModel:
    """A graph of Wal or WalRefines, and its constants."""

    def __init__(self, graph: Graph, config: str) -> None:
        self.graph = graph
        self.eager = constant(config, "Eager") == "TRUE"
        word: Any = graph.value(0, "word")
        self.cells = WalCells(sorted(word))
        self.steps = Steps(graph, self.who)
        self._views: dict[int, View] = {}
        self._looked: set[tuple[int, str]] = set()

    def who(self, source: int, action: str, target: int) -> str:
        """The one worker whose program or memory an edge changes; none for a host crash."""
        if action == "HostCrash":
            return "host"
        found = set[str]()
        for variable in ("pc", "me"):
            before, after = self._value(source, variable), self._value(target, variable)
            found.update(changed(before, after))
        if len(found) != 1:
            raise Mismatch(f"one worker takes {action}, but {sorted(found)} change")
        return found.pop()

    def _value(self, state: int, variable: str) -> Any:
        return self.graph.value(state, variable)

    def mem_of(self, state: int, w: str, role: str) -> tuple[str, ...] | None:
        """The content behind a description, None when it is closed."""
        fs = self._value(state, "fs")
        inode = fs["fd"][f"{w}.{role}"]
        return fs["ino"][inode - 1]["mem"] if inode else None

    def batch(self, state: int, w: str) -> tuple[str, ...]:
        """What CopyWal is to write: `Batch` of the spec, its last cell after a short write."""
        me, pc = self._value(state, "me")[w], self._value(state, "pc")[w]
        source = self.mem_of(state, w, "cur" if pc == "merge.CopyWal" else "own")
        assert source is not None
        tasks = sorted(me["got"] or me["more"], key=lambda t: _place(source, t))
        lines = [cell for t in tasks for cell in (f"+{t}<", f"+{t}>")]
        if not me["got"]:
            lines = lines[:2]  # from memory one by one
        return tuple(lines[-1:] if me["rec"] == "rest" else lines)

    def is_new(self, state: int, w: str) -> bool:
        """Whether a worker is looked at in this state for the first time."""
        before = len(self._looked)
        self._looked.add((state, w))
        return len(self._looked) > before

    def may_add(self, state: int, task: str) -> bool:
        """`MayWrite` of the spec: callers use an id once, and again as often as the model says."""
        word = self._value(state, "word")[task]
        again = self._value(state, "left")["again"] > 0
        return word == "new" or (again and word in ("removed", "buried"))

    def _is_excused(self, state: int, call: WalCall) -> bool:
        """Steps that the engine may take between calls and the model does not show: an id that
        another worker has used since this call began, a file that the model has no room for, the
        end of a `close` that has failed (a kill, to the model: see `WalWorld`)."""
        op = call.pending
        if call.entry == "close" and call.failed:
            return isinstance(op, CloseWal)
        if isinstance(op, CreateWal):
            return not self.has_room(state)
        if isinstance(op, AppendWal):
            record = self.cells.to_cells(op.data)[0][:-1]
            return record[0] == "+" and not self.may_add(state, record[1:])
        return False

    def has_room(self, state: int) -> bool:
        """Whether the model has a name and an inode for a new file: `CreateWal` of the spec."""
        fs = self._value(state, "fs")
        dirs = [*fs["dirs"], fs["dir"], fs["dwant"]]
        listed = {n for me in self._value(state, "me").values() for n in me["todo"]}
        names = [n for n, _ in items(fs["dir"]) if n not in listed]
        reached = {inode for d in dirs for _, inode in items(d)} | set(fs["fd"].values())
        is_unused = any(all(dict(items(d))[n] == 0 for d in dirs) for n in names)
        return is_unused and not reached >= set(range(1, len(fs["ino"]) + 1))

    # --- views ----------------------------------------------------------------------------------

    def view(self, state: int) -> View:
        """What the model shows."""
        if state not in self._views:
            self._views[state] = self._view(state)
        return self._views[state]

    def _view(self, state: int) -> View:
        fs, labels, found = self._value(state, "fs"), Labels(), dict[str, object]()
        for number, inode in items(fs["dir"]):
            if inode:
                found[f"name {number}"] = labels.of(inode), fs["ino"][inode - 1]["mem"]
        for w, pc in self._value(state, "pc").items():
            found[f"next step of {w}"] = _next(pc, fs["fd"][f"{w}.new"] != 0)
            for role in ROLES:
                inode = fs["fd"][f"{w}.{role}"]
                if inode:
                    locked = f"{w}.{role}" in fs["lk"]
                    mem = fs["ino"][inode - 1]["mem"]
                    found[f"{role} of {w}"] = labels.of(inode), locked, mem
            if pc not in _WITHOUT_MEMORY:
                found[f"memory of {w}"] = _memory(pc, self._value(state, "me")[w])
        return found

    def engine_view(
        self,
        state: int,
        machine: Machine,
        names: Mapping[str, int],
        workers: Mapping[str, WalWorker | None],
    ) -> View:
        """What the engine shows, where the model is in a state."""
        labels, found = Labels(), dict[str, object]()
        entries = machine.directory(DIRECTORY).entries
        known = sorted((names[name], inode) for name, inode in entries.items() if name in names)
        assert len(known) == len(entries) - 1, "nothing else is in the directory"
        for number, inode in known:
            data = bytes(machine.disk.nodes[inode].data)
            found[f"name {number}"] = labels.of(inode), self._cells_of(data)
        for w, pc in self._value(state, "pc").items():
            worker = workers[w]
            if worker is None:
                found[f"next step of {w}"] = "down"
                continue
            found[f"next step of {w}"] = self._engine_next(state, w, pc, worker)
            for role in ROLES:
                if role in worker.fds:
                    node = worker.node(role)
                    locked = machine.locks.get(node.number) is worker.description(role)
                    cells = self._cells_of(bytes(node.data))
                    found[f"{role} of {w}"] = labels.of(node.number), locked, cells
            if worker.fs.open_descriptors() != len(worker.fds):
                found[f"descriptors of {w}"] = worker.fs.open_descriptors()
            if pc not in _WITHOUT_MEMORY:
                found[f"memory of {w}"] = _engine_memory(pc, worker)
        return found

    def _cells_of(self, data: bytes) -> tuple[str, ...]:
        """The torn tail that a crash has left is not part of the model's content."""
        return self.cells.to_cells(data.removesuffix(TORN))

    def _engine_next(self, state: int, w: str, pc: str, worker: WalWorker) -> str:
        if worker.call is None and pc in REPEATED:
            op = worker.first_step("sync")
            return "no step" if op is None else f"{op.action} {worker.role_of(op)}".strip()
        if worker.call is None:
            return "quit" if pc == "quit" else "between calls"
        action = worker.call.pending.action
        if pc in BETWEEN_CALLS and (
            (w, action) in self.steps.allowed(state) or self._is_excused(state, worker.call)
        ):
            return "between calls"
        return f"{action} {worker.role_of(worker.call.pending)}".strip()


def _next(pc: str, has_new: bool) -> str:
    if pc in BETWEEN_CALLS:
        return "between calls"
    if pc in ("down", "quit"):
        return pc
    phase, action = pc.split(".")
    if action in _WITHOUT_ROLE:
        return action
    if pc == "undo.TruncateWal":
        return f"{action} {'new' if has_new else 'own'}"
    return f"{action} {_ROLE_OF_STEP.get(pc) or _ROLE_OF_PHASE[phase]}"


def _memory(pc: str, me: Fn) -> View:
    """A worker's memory. A merge counts a task as live once it is copied, the model once synced."""
    live = me["live"] | me["got"] if pc == "merge.FsyncWal" else me["live"]
    found = {"live": live, "tail": me["tail"], "suspect": me["sus"]}
    if pc in BETWEEN_CALLS:
        found["dirty"] = bool(me["tail"] or me["out"])
        if not me["sus"]:
            found["unsettled"] = pc == "dropped.FsyncWalDir"
    elif pc.startswith("start."):
        found["unsettled"] = me["tidy"]
    return found


def _engine_memory(pc: str, worker: WalWorker) -> View:
    own, file = worker.own, worker.file
    live = frozenset() if file is None else frozenset(file.live)
    tail = frozenset() if file is None else frozenset(file.unsynced)
    suspect = file is not None and file.suspect
    found: dict[str, object] = {"live": live, "tail": tail, "suspect": suspect}
    if pc in BETWEEN_CALLS:
        found["dirty"] = file is not None and file.dirty
        if not suspect:
            found["unsettled"] = own.unsettled
    elif pc.startswith("start."):
        found["unsettled"] = own.unsettled
    return found


def _place(content: tuple[str, ...], task: str) -> int:
    """Where the record that counts for a task ends, 0 if there is none."""
    back = f"+{task}>"
    return max((n for n, cell in enumerate(content, 1) if cell == back), default=0)


def items(function: Any) -> list[tuple[Any, Any]]:
    """The pairs of a function; TLC prints one over 1..n as a tuple."""
    if isinstance(function, tuple):
        return list(enumerate(function, 1))
    return list(function.items())
