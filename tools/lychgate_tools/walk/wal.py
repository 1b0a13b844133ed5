"""The tasks WAL beside its model: modules Wal and WalRefines.

Model and engine are held together at every step:
  * the step that a worker would take next is the one that `pc` names, on the description that the
    model has in that place, and it has an edge in the graph;
  * names, the inode behind every name and description, locks and every byte of content agree;
  * memory agrees: the live tasks, those that no fsync has covered, whether anything is dirty,
    suspect or unsettled; and what `pending_tasks` shows is what the model's memory holds;
  * what is written is the model's batch or line, and where an append is taken back to its `good`;
  * a call that returns gives what the model says: success or an error.

Whose step an edge is, and how it ended, is read off its two states: `pc` or `me` of one worker
changes, and `left.fails` goes down by one where a call failed or was cut short.

Mapped, with the reason
  * one ReadWal of the model reads a file to its end, or a run of records; the engine repeats it
    (nobody else writes to a file that is claimed or owned, so no other worker can tell);
  * the model numbers names and lists them in this order; the engine's order, which follows date and
    process id, is arbitrary against the order of events, so ListWals is answered in the model's;
  * a failed fsync may revert the cache: the model's state says whether it did;
  * what a host crash leaves is taken from the model's state: that the simulated disk leaves the
    same images is the crash lab's business. The model keeps of a file its valid records, so every
    other file is mounted with a torn tail behind them, which must not count.
  * a `close` that fails goes on to its end, which leaves what a kill leaves: so it ends on the edge
    of a kill, if one comes next.
  * a failed step that the next call repeats is a stutter of the spec and has no edge: in every
    other state with such a step it fails first, and then the step is another call's.
"""

from __future__ import annotations

import errno
from typing import Any

from lychgate import StorageError
from lychgate._names import wal_name
from lychgate._op import Op
from lychgate._ops import (
    AppendWal,
    ClaimOpen,
    CloseWal,
    CopyWal,
    CreateWal,
    FsyncWal,
    ListWals,
    ReadWal,
    TruncateWal,
    UnlinkWal,
)
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.beside import compare_views
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch
from lychgate_tools.walk.wal_lines import TORN, line_of
from lychgate_tools.walk.wal_view import BETWEEN_CALLS, REPEATED, WalModel, items
from lychgate_tools.walk.wal_worker import DIRECTORY, PREFIX, WalCall, WalWorker

_FORGIVEN = (
    "start.ClaimOpen", "start.ClaimTry", "start.ClaimCheck", "start.ReadWal",
    "discard.UnlinkWal", "close.UnlinkWal",
)  # fmt: skip
"""Where a failure is no error of the call: a file is left for a better day, or is empty (W14)."""


class WalWorld:
    """The engine in one state of a graph of Wal."""

    def __init__(self, model: WalModel, state: int) -> None:
        self._model = model
        self._graph = model.graph
        self._workers: dict[str, WalWorker | None] = {w: None for w in self._value(state, "pc")}
        self._names: dict[str, int] = {}  # the model's number of each name ever made
        self._boot = 1
        self._machine = self._mount(state)

    def _value(self, state: int, variable: str) -> Any:
        return self._graph.value(state, variable)

    def close(self) -> None:
        for worker in self._workers.values():
            if worker is not None:
                self._drop(worker)

    def _drop(self, worker: WalWorker) -> None:
        """A process is gone: no program of it takes another step."""
        worker.fs.kill()
        if worker.call is not None:
            worker.call.program.close()

    def _mount(self, state: int) -> Machine:
        """What a crash has left: the model's files, every other one with a torn tail."""
        fs = self._value(state, "fs")
        files: dict[str, Content] = {f"{DIRECTORY[1:]}/.keep": b""}
        for number, inode in items(fs["dir"]):
            if inode:
                name = wal_name(PREFIX, "20260101", 1000 * self._boot + number, bytes(8))
                self._names[name] = number
                tail = TORN if (state + number) % 2 else b""
                data = self._model.cells.to_bytes(fs["ino"][inode - 1]["mem"]) + tail
                files[f"{DIRECTORY[1:]}/{name}"] = data
        return Machine(image_of(files), boot=f"boot-{self._boot}")

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        if action == "HostCrash":
            self._machine.crash()
            self.close()
            self._workers = {w: None for w in self._workers}
            self._boot += 1
            self._machine = self._mount(target)
            return
        w = self._model.who(source, action, target)
        if action == "Fork":
            parent = next(p for n, p in self._workers.items() if n != w and p is not None)
            self._workers[w] = parent.fork()
        elif action in ("Kill", "Quit"):
            if self._value(source, "pc")[w] == "idle":
                self._worker(w).end_failed_close()
            self._drop(self._worker(w))
            self._workers[w] = None
        elif action == "ListWals":
            worker = self._workers[w] = WalWorker(SimFs(self._machine), self._model.eager)
            worker.begin("start", rotates=False)
            self._perform(w, worker, source, action, target)
        else:
            worker = self._worker(w)
            if self._value(source, "pc")[w] in BETWEEN_CALLS or worker.call is None:
                self._enter(w, worker, source, action, target)
            self._perform(w, worker, source, action, target)

    def _worker(self, w: str) -> WalWorker:
        worker = self._workers[w]
        if worker is None:
            raise Mismatch(f"worker {w} takes a step and is down in the engine")
        return worker

    def _enter(self, w: str, worker: WalWorker, source: int, action: str, target: int) -> None:
        """Make sure that the call under way is one that takes this step."""
        wanted = self._entries(w, worker, source, action, target)
        if worker.call is not None and not self._goes_on(worker.call, wanted, action):
            worker.abandon()
        if worker.call is None:
            rotates = self._value(target, "left")["rotations"] > 0
            worker.begin(wanted[source % len(wanted)], rotates)

    def _goes_on(self, call: WalCall, wanted: list[str], action: str) -> bool:
        op = call.pending
        if op.action != action:
            return False
        if isinstance(op, AppendWal):
            return op.data == line_of(wanted[0])
        return isinstance(op, CreateWal) or call.entry in wanted

    def _entries(
        self, w: str, worker: WalWorker, source: int, action: str, target: int
    ) -> list[str]:
        """The calls that may begin with this step here."""
        word, live = self._value(source, "word"), self._value(source, "me")[w]["live"]
        adds = [f"+{t}" for t in word if self._model.may_add(source, t)]
        writes = adds + [f"-{t}" for t in sorted(live)]
        syncs = ["sync"] if worker.own.due is None else ["sync", "tick"]
        if action == "AppendWal":
            return [self._record(w, source, target)]
        if action == "CreateWal":
            own = worker.file
            if own is not None and not own.suspect:
                return ["rotate"]
            return ["create", *writes] if own is None else [*writes, *syncs, "close"]
        if action == "FsyncWal":
            is_closing = self._value(target, "pc")[w].startswith("close.")
            return ["close"] if is_closing else syncs
        is_close = self._value(source, "pc")[w] == "idle"
        return ["close"] if is_close else [*syncs, *writes]

    def _record(self, w: str, source: int, target: int) -> str:
        """The record of an AppendWal: named by `rec`, or told by what the worker holds then."""
        before, after = self._value(source, "me")[w], self._value(target, "me")[w]
        if after["rec"] or before["rec"]:
            return str(after["rec"] or before["rec"])
        lost = before["live"] - after["live"]
        if lost:
            return f"-{next(iter(lost))}"
        word, word2 = self._value(source, "word"), self._value(target, "word")
        return next(f"+{t}" for t in word if word[t] != word2[t])

    # --- taking a step --------------------------------------------------------------------------

    def _perform(self, w: str, worker: WalWorker, source: int, action: str, target: int) -> None:
        call = worker.call
        if call is None or call.pending.action != action:
            would = "no step" if call is None else call.pending.action
            raise Mismatch(f"the model takes {action}, the engine of {w} would take {would}")
        self._check_arguments(w, call.pending, source, target)
        fails = self._value(source, "left")["fails"] - self._value(target, "left")["fails"]
        pc2 = self._value(target, "pc")[w]
        result: object = None
        error: OSError | None = None
        if fails and not pc2.endswith(("add.AppendWal", ".CopyWal")):
            error = self._fail(w, worker, call, source, target)
        else:
            try:
                result = self._ask(worker, call.pending, short=fails > 0)
            except OSError as raised:
                error = raised
        self._note(worker, call.pending, result, source, target)
        pc = self._value(source, "pc")[w]
        outcome = worker.resume(result, error)
        while worker.call is not None and self._is_same_read(pc, call.pending, result):
            result = call.pending.perform(worker.fs)
            outcome = worker.resume(result, None)
        worker.adopt()
        if outcome is not None and isinstance(outcome, StorageError) != call.failed:
            raise Mismatch(f"{call.entry} of {w} ends with {outcome!r} and failed: {call.failed}")
        if outcome is not None and call.entry == "close" and pc2 == "down":
            if worker.fs.open_descriptors():
                raise Mismatch(f"{w} has closed and left descriptors open")
            self._drop(worker)
            self._workers[w] = None

    def _is_same_read(self, pc: str, op: Op[Any], result: object) -> bool:
        """A file is replayed to its end; a run of records is in one piece in these models."""
        return pc == "start.ReadWal" and isinstance(op, ReadWal) and result not in (b"", None)

    def _fail(
        self, w: str, worker: WalWorker, call: WalCall, source: int, target: int
    ) -> OSError:
        pc, role = self._value(source, "pc")[w], "own"
        if isinstance(call.pending, FsyncWal):
            role = "new" if pc == "rotate.FsyncWal" else "own"
            self._revert(w, worker, role, target)
        is_close = isinstance(call.pending, UnlinkWal) and pc == "idle"
        call.failed = call.failed or not (pc in _FORGIVEN or call.by_size or is_close)
        return OSError(errno.EIO, "Input/output error")

    def _revert(self, w: str, worker: WalWorker, role: str, target: int) -> None:
        fs = self._value(target, "fs")
        data = self._model.cells.to_bytes(fs["ino"][fs["fd"][f"{w}.{role}"] - 1]["mem"])
        node = worker.node(role)
        if bytes(node.data) != data:
            self._machine.disk.sync_reverted(node.number, data)

    def _ask(self, worker: WalWorker, op: Op[Any], short: bool) -> object:
        if short:
            assert isinstance(op, (AppendWal, CopyWal))
            op = type(op)(op.fd, self._model.cells.without_last(op.data))
        result = op.perform(worker.fs)
        if isinstance(op, ListWals):
            return sorted(result, key=lambda name: self._names.get(name, 0))
        return result

    def _note(
        self, worker: WalWorker, op: Op[Any], result: object, source: int, target: int
    ) -> None:
        if isinstance(op, CloseWal):
            worker.closed(op.fd)
        elif isinstance(op, ClaimOpen) and isinstance(result, int):
            worker.opened("cur", result, op.path)
        elif isinstance(op, CreateWal) and isinstance(result, int):
            assert worker.call is not None
            worker.call.by_size = worker.file is not None and not worker.file.suspect
            worker.opened("new", result, op.path)
            old, new = self._value(source, "fs")["dir"], self._value(target, "fs")["dir"]
            number = next(n for n, inode in items(new) if inode != dict(items(old))[n])
            self._names[op.path.rpartition("/")[2]] = number

    def _check_arguments(self, w: str, op: Op[Any], source: int, target: int) -> None:
        """What an op is about to do beyond its action and its file."""
        if isinstance(op, TruncateWal):
            role = "new" if self._model.mem_of(source, w, "new") is not None else "own"
            mem = self._model.mem_of(source, w, role) or ()
            good = self._value(source, "me")[w]["good"]
            size = len(self._model.cells.to_bytes(mem[:good]))
            if op.size != size:
                raise Mismatch(f"TruncateWal to {op.size}, in the model to {size}")
        elif isinstance(op, (CopyWal, AppendWal)):
            cells = self._model.cells.to_cells(op.data)
            if isinstance(op, CopyWal):
                wanted = self._model.batch(source, w)
            else:
                record = self._record(w, source, target)
                whole = self._value(source, "pc")[w] == "idle"
                wanted = (f"{record}<", f"{record}>") if whole else (f"{record}>",)
            if cells != wanted:
                raise Mismatch(f"{op.action} of {cells}, in the model of {wanted}")
        elif isinstance(op, ClaimOpen):
            number = self._names.get(op.path.rpartition("/")[2])
            first = min(self._value(source, "me")[w]["todo"])
            if number != first:
                raise Mismatch(f"ClaimOpen of name {number}, in the model of {first}")

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        model = self._model
        engine = model.engine_view(state, self._machine, self._names, self._workers)
        compare_views(engine, model.view(state))
        for w, worker in self._workers.items():
            between = self._value(state, "pc")[w] in BETWEEN_CALLS
            if worker is None:
                continue
            if worker.call is None and between:
                self._look_around(state, w, worker)
            elif worker.call is not None and not between:
                self._check_edge(state, w, worker.call.pending)
                if state % 2 and self._value(state, "pc")[w] in REPEATED:
                    self._fail_and_repeat(state, w, worker, worker.call)

    def _look_around(self, state: int, w: str, worker: WalWorker) -> None:
        """Between calls: what is shown, and that no call begins with a step that has no edge."""
        shown, live = worker.pending_ids(), self._value(state, "me")[w]["live"]
        if shown != live:
            raise Mismatch(f"pending_tasks of {w} shows {shown}, in the model {live}")
        if not self._model.is_new(state, w):
            return
        tasks = self._value(state, "word")
        calls = [f"+{t}" for t in tasks if self._model.may_add(state, t)]
        calls += [f"-{t}" for t in tasks]
        for entry in ("sync", "tick", "close", *calls):
            op = worker.first_step(entry)
            if op is not None:
                self._check_edge(state, w, op)

    def _fail_and_repeat(self, state: int, w: str, worker: WalWorker, call: WalCall) -> None:
        """A step that fails where `pc` stays: its call ends, and every other begins with it."""
        if call.entry == "close":
            return  # goes on to its end
        step = call.pending.action, worker.role_of(call.pending)
        outcome = worker.resume(None, OSError(errno.EIO, "Input/output error"))
        failed = call.failed or not call.by_size
        if outcome is None or isinstance(outcome, StorageError) != failed:
            raise Mismatch(f"{step} of {w} fails, {call.entry} ends with {outcome!r}: {failed}")
        tasks = self._value(state, "word")
        for entry in ["sync", "tick", "close", *(s + t for s in "+-" for t in tasks)]:
            op = worker.first_step(entry)
            found = None if op is None else (op.action, worker.role_of(op))
            if found != step:
                raise Mismatch(f"{step} of {w} has failed, and {entry} begins with {found}")
        engine = self._model.engine_view(state, self._machine, self._names, self._workers)
        compare_views(engine, self._model.view(state))

    def _check_edge(self, state: int, w: str, op: Op[Any]) -> None:
        """The model has few names and inodes; a new file that it has no room for has no edge."""
        if not isinstance(op, CreateWal) or self._model.has_room(state):
            self._model.steps.check(state, [(w, op.action)])


class Side:
    """Wal beside the engine, for `lychgate walk`."""

    rebuilds = frozenset(("HostCrash",))

    def __init__(self, graph: Graph, config: str) -> None:
        self._model = WalModel(graph, config)

    def starts(self) -> list[int]:
        """States in which every process is gone: they can be built as they are."""
        graph = self._model.graph
        found = dict.fromkeys(graph.initial)
        for state in range(len(graph.states)):
            pc: Any = graph.value(state, "pc")
            if all(at == "down" for at in pc.values()):
                found[state] = None
        return list(found)

    def world(self, state: int) -> WalWorld:
        return WalWorld(self._model, state)
