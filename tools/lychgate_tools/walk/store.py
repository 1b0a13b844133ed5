"""The dead-task store beside its model: modules Lock and DeadTasks.

Model and engine are held together at every step:
  * the op that each fiber would take next is the action that `pc` names;
  * flags, lock descriptors, locks, names, the inode behind every name and descriptor and every byte
    of content agree; inode numbers may differ, but one to one;
  * what an op is about to write is what the model's `buf` says, and where it cuts is its `end`;
  * a call that returns gives what the model says: an error, a count, the records seen.

A cell of the model is CELL bytes: a record is a line of two cells, written and lost cell by cell.
What a host crash leaves is taken from the model's state; that the simulated disk leaves the same
images is the crash lab's business.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Mapping
from typing import Any

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._dead import DeadStore
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._op import Op, Program
from lychgate._ops import (
    AppendRecord,
    CloseData,
    CloseLock,
    CloseStaging,
    CreateStaging,
    OpenData,
    OpenLock,
    TruncateTail,
    WriteStaging,
)
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.tlc.values import Fn
from lychgate_tools.walk.beside import Bijection, Steps, changed
from lychgate_tools.walk.calls import Call, check_outcome, nothing, records_of
from lychgate_tools.walk.cells import CELL, Cells, line_of
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.store_worker import DIRECTORY, FILES, Worker
from lychgate_tools.walk.tour import Mismatch

FAULTS = ("FailLock", "Fail", "FailClearMark", "FailClose", "FailFsync")
_OPENS = {OpenData: "data", CreateStaging: "staging", OpenLock: "lock"}
_CLOSES = {CloseData: "data", CloseStaging: "staging", CloseLock: "lock"}


class StoreWorld:
    """The engine in one state of a graph of Lock or DeadTasks."""

    def __init__(self, graph: Graph, steps: Steps, state: int) -> None:
        self._graph = graph
        self._steps = steps
        fs = self._value(state, "fs")
        self._workers: dict[str, Worker | None] = {w: None for w in self._value(state, "pc")}
        self._cells = Cells(sorted(self._value(state, "known")))
        self._boot = 1
        self._machine = self._mount(fs, old_boot=False)

    def close(self) -> None:
        for worker in self._workers.values():
            if worker is not None:
                self._drop(worker)

    def _value(self, state: int, variable: str) -> Any:
        return self._graph.value(state, variable)

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        if action in ("HostCrash", "Remount"):
            return self._crash(target, new_boot=action == "HostCrash")
        if action == "DeleteLock":
            return self._machine.unlink(FILES["lock"])
        if action in ("Kill", "Restart", "Fork", "DropInherited", "KillInWrite"):
            return self._process_step(source, action, target)
        w, f = self._steps.who(source, action, target).split(".")
        job = self._value(source, "job")[w][f]
        if action == "Call":
            return self._call(w, f, self._value(target, "job")[w][f])
        call = self._worker(w).calls.get(f)
        if call is None:
            raise Mismatch(f"{action} of {w}.{f}: the engine has no call under way there")
        if action in FAULTS:
            self._fail(w, f, call, job)
        elif action == "ShortWrite":
            self._perform(w, f, call, job, short=True)
        elif call.pending.action != action:
            raise Mismatch(f"the model takes {action}, the engine would take {call.pending.action}")
        else:
            self._perform(w, f, call, job)

    def _worker(self, w: str) -> Worker:
        worker = self._workers[w]
        if worker is None:
            raise Mismatch(f"worker {w} takes a step and is down in the engine")
        return worker

    def _crash(self, target: int, new_boot: bool) -> None:
        self._machine.crash()
        self.close()
        self._workers = {w: None for w in self._workers}
        self._boot += new_boot
        self._machine = self._mount(self._value(target, "fs"), old_boot=new_boot)

    def _process_step(self, source: int, action: str, target: int) -> None:
        pc, pc2 = self._value(source, "pc"), self._value(target, "pc")
        w = next(w for w in pc if pc[w] != pc2[w])
        if action == "Restart":
            self._workers[w] = Worker(SimFs(self._machine))
        elif action == "DropInherited":
            worker = self._worker(w)
            worker.fs.close_all()
            worker.inherited = None
        elif action == "Fork":
            parent = self._forker(source, target, w)
            self._workers[w] = parent.fork()
        else:
            worker = self._worker(w)
            if action == "KillInWrite":
                self._write_first_cell(worker, source, target)
            self._drop(worker)
            self._workers[w] = None

    def _forker(self, source: int, target: int, child: str) -> Worker:
        inherited = self._value(target, "inherited")[child]
        lock = self._value(source, "lock")
        return self._worker(next(w for w in lock if lock[w] == inherited))

    def _write_first_cell(self, worker: Worker, source: int, target: int) -> None:
        """Whose write was cut is told by the content: it grew by one cell."""
        grown = [
            call.pending
            for call in worker.calls.values()
            if isinstance(call.pending, (AppendRecord, WriteStaging))
        ]
        assert len(grown) == 1, "one fiber at a time is inside"
        worker.fs.append(grown[0].fd, grown[0].data[:CELL])

    def _drop(self, worker: Worker) -> None:
        """A process is gone: no program of it takes another step."""
        worker.fs.kill()
        for call in worker.calls.values():
            call.program.close()
        worker.calls.clear()

    # --- programs -------------------------------------------------------------------------------

    def _call(self, w: str, f: str, job: Mapping[str, Any]) -> None:
        worker = self._worker(w)
        program = self._program(worker.store, job["op"], job["rec"])
        worker.calls[f] = Call(job["op"], job["rec"], program, program.send(None))

    def _program(self, store: DeadStore, op: str, record: str) -> Program[Any]:
        if op == "add":
            return store.add(line_of(record))
        if op == "remove":
            return store.remove(frozenset((record.encode("ascii"),)))
        if op == "list":
            return records_of(store)
        if op == "prepare":
            return store.prepare()
        assert op == "hold", op
        return store._locked(nothing)

    def _perform(
        self, w: str, f: str, call: Call, job: Mapping[str, Any], short: bool = False
    ) -> None:
        worker = self._worker(w)
        op: Op[Any] = call.pending
        self._check_arguments(op, job)
        if short:
            assert isinstance(op, (AppendRecord, WriteStaging))
            op = type(op)(op.fd, op.data[:CELL])
        try:
            result = op.perform(worker.fs)
        except OSError as error:
            return self._resume(w, f, call, job, None, error)
        kind = type(op)
        if kind in _OPENS:
            worker.opened[f, _OPENS[kind]] = result
        elif kind in _CLOSES:
            worker.opened.pop((f, _CLOSES[kind]), None)
        self._resume(w, f, call, job, result, None)

    def _check_arguments(self, op: Op[Any], job: Mapping[str, Any]) -> None:
        if isinstance(op, (AppendRecord, WriteStaging)):
            cells = self._cells.to_cells(op.data)
            if cells != job["buf"]:
                raise Mismatch(f"{op.action} of {cells}, in the model of {job['buf']}")
        elif isinstance(op, TruncateTail) and op.size != job["end"] * CELL:
            raise Mismatch(f"TruncateTail to {op.size}, in the model to {job['end'] * CELL}")

    def _fail(self, w: str, f: str, call: Call, job: Mapping[str, Any]) -> None:
        kind = type(call.pending)
        if kind in _CLOSES:  # a failed close has closed
            call.pending.perform(self._worker(w).fs)
            self._worker(w).opened.pop((f, _CLOSES[kind]), None)
        failed = {**job, "err": job["err"] or kind.action not in ("ClearMark", "Unlock")}
        self._resume(w, f, call, failed, None, OSError(errno.EIO, "Input/output error"))

    def _resume(
        self,
        w: str,
        f: str,
        call: Call,
        job: Mapping[str, Any],
        result: object,
        error: OSError | None,
    ) -> None:
        worker = self._worker(w)
        try:
            if error is None:
                call.pending = call.program.send(result)
            else:
                call.pending = call.program.throw(error)
            return
        except StopIteration as stop:
            outcome: object = stop.value
        except (StorageError, DeadTasksLockTimeout) as raised:
            outcome = raised
        del worker.calls[f]
        check_outcome(call, job, outcome, self._cells)

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        pc, fs = self._value(state, "pc"), self._value(state, "fs")
        flag, lock = self._value(state, "flag"), self._value(state, "lock")
        numbers = Bijection()
        self._compare_names(fs, numbers)
        for w, worker in self._workers.items():
            engine = _pcs(worker, pc[w])
            if engine != dict(pc[w]):
                raise Mismatch(f"worker {w}: next steps are {engine}, in the model {dict(pc[w])}")
            if worker is None:
                continue
            self._steps.check(
                state, [(f"{w}.{f}", call.pending.action) for f, call in worker.calls.items()]
            )
            if worker.flag != (flag[w] != ""):
                raise Mismatch(f"worker {w}: flag taken is {worker.flag}, in the model {flag[w]!r}")
            self._compare_descriptors(w, worker, fs, lock[w], numbers)

    def _compare_names(self, fs: Fn, numbers: Bijection) -> None:
        for name, path in FILES.items():
            node, inode = self._machine.look_up(path), fs["dir"][name]
            numbers.pair(name, inode, 0 if node is None else node.number)
            if node is None:
                continue
            content: object = fs["ino"][inode - 1]["mem"]
            seen: object = self._cells.to_cells(bytes(node.data))
            if name == "lock":
                seen = ("clean",) if bytes(node.data) == clean_mark(self._boot_id) else ()
                content = content if content == ("clean",) else ()
            if seen != content:
                raise Mismatch(f"{name} holds {seen}, in the model {content}")

    def _compare_descriptors(
        self, w: str, worker: Worker, fs: Fn, lock: str, numbers: Bijection
    ) -> None:
        for f, role in itertools.product(self._fibers(), ("data", "staging")):
            name = f"{w}{f}{role[0]}"
            fd = worker.opened.get((f, role))
            node = 0 if fd is None else worker.fs._fds[fd].node.number
            numbers.pair(f"{role} of {w}.{f}", fs["fd"][name], node)
        held = worker.lock_fd
        node = 0 if held is None else worker.fs._fds[held].node.number
        numbers.pair(f"lock of {w}", fs["fd"][lock] if lock else 0, node)
        locked = held is not None and worker.fs._fds[held] in self._machine.locks.values()
        if locked != (lock != "" and lock in fs["lk"]):
            raise Mismatch(f"worker {w}: holds the lock is {locked}, in the model {not locked}")
        count = len([key for key in worker.opened if key[1] != "lock"]) + (held is not None)
        count += worker.inherited is not None
        if worker.fs.open_descriptors() != count:
            raise Mismatch(f"worker {w}: {worker.fs.open_descriptors()} descriptors, {count} known")

    def _fibers(self) -> list[str]:
        return list(next(iter(self._value(0, "pc").values())))

    # --- disks ----------------------------------------------------------------------------------

    @property
    def _boot_id(self) -> str:
        return f"boot-{self._boot}"

    def _mount(self, fs: Fn, old_boot: bool) -> Machine:
        files: dict[str, Content] = {}
        for name, path in FILES.items():
            inode = fs["dir"][name]
            if inode == 0:
                continue
            cells = fs["ino"][inode - 1]["mem"]
            is_lock = name == "lock"
            data = self._mark(cells, old_boot) if is_lock else self._cells.to_bytes(cells)
            files[path[1:]] = data
        files.setdefault(f"{DIRECTORY}/.keep", b"")
        return Machine(image_of(files), boot=self._boot_id, unit=CELL)

    def _mark(self, cells: object, old_boot: bool) -> bytes:
        if cells == ("clean",):
            return clean_mark(self._boot_id)
        return clean_mark(f"boot-{self._boot - 1}") if old_boot else UNFINISHED_MARK


def _pcs(worker: Worker | None, fibers: Fn) -> dict[str, str]:
    if worker is None:
        return {f: "down" for f in fibers}
    rest = "idle" if worker.inherited is None else "forked"
    return {
        f: worker.calls[f].pending.action if f in worker.calls else rest for f in fibers
    }


class Side:
    """Lock and DeadTasks beside the engine, for `lychgate walk`."""

    rebuilds = frozenset(("HostCrash", "Remount"))

    def __init__(self, graph: Graph, config: str) -> None:
        self._graph = graph
        self._steps = Steps(graph, self._who)

    def _who(self, source: int, action: str, target: int) -> str:
        """Whose step an edge is: the one fiber whose `pc` or `job` changes, or a whole worker."""
        found = set[str]()
        for variable in ("pc", "job"):
            before: Any = self._graph.value(source, variable)
            after: Any = self._graph.value(target, variable)
            for w in changed(before, after):
                found.update(f"{w}.{f}" for f in changed(before[w], after[w]))
        return " ".join(sorted(found))

    def starts(self) -> list[int]:
        """States in which every process is gone: they can be built as they are."""
        found = dict.fromkeys(self._graph.initial)
        for state in range(len(self._graph.states)):
            pc: Any = self._graph.value(state, "pc")
            if all(at == "down" for fibers in pc.values() for at in fibers.values()):
                found[state] = None
        return list(found)

    def world(self, state: int) -> StoreWorld:
        return StoreWorld(self._graph, self._steps, state)
