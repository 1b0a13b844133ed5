"""The delivery queue beside its model: module Delivery (L2, L4, L7, L10-L12).

Model and engine are held together at every step:
  * the step that the engine would take next is the one that `pc` names, on the file that the model
    has there, with the model's bytes: a record, a snapshot, a manifest, where a tail is cut;
  * names, the inode behind every name, every byte of content, and the mark of a clean end agree;
  * memory agrees: items, generation, segments, records in the last one, high-water mark, poison;
  * a call that returns gives what the model says: a result, a number, or which error;
  * between calls every change that the model allows begins, and every other one is refused.

Which change an edge is, is read off its two states; a call failed where `left.fails` goes down.

Mapped, with the reason
  * opening and closing descriptions, the lock, and reading in several pieces are no steps of the
    model, or one (one process owns the directory);
  * the model adds a segment, or compacts, without saying for which change; the engine's call goes
    on with its own. If the model's next step is another one, the call is taken away before its
    next step and the poison with it: what it has done is what the model did;
  * which item is claimed is DeliverySpec's business, and admission is DeliverySpace's: the model
    says which item, and everything is admitted;
  * an open that fails leaves no instance. The model goes on with a recovery, the engine with a new
    open, whose ReadMark and SetMark find and leave the mark of an unfinished one;
  * where a poisoned instance is killed, it is closed in every other state: the same is left;
  * what a crash of the host or a foreign hand leaves is taken from the model's state; that the
    simulated disk leaves the same images is the crash lab's business.
"""

from __future__ import annotations

import errno

from lychgate import StorageError
from lychgate._delivery_errors import DeliveryCorrupt, DeliveryPoisoned, Result
from lychgate._delivery_files import LOCK
from lychgate._delivery_layout import Limits
from lychgate._delivery_ops import (
    AppendEvent,
    CloseMeta,
    CloseSegment,
    CreateMeta,
    OpenMeta,
    OpenSegment,
    ReadMeta,
    ReadSegment,
)
from lychgate._op import Op
from lychgate._ops import CheckLock, CloseLock, FsyncParent, LockTry, MakeDir, OpenLock
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.beside import compare_views
from lychgate_tools.walk.delivery_cells import FOOTER_BYTES, segment_bytes
from lychgate_tools.walk.delivery_view import DIRECTORY, LOADING, DeliveryModel, engine_memory
from lychgate_tools.walk.delivery_worker import Change, DeliveryWorker, Ended, Queue, result_of
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch

_BOOT = 2
_METAS = (OpenMeta, ReadMeta, CloseMeta)
_SEGMENTS = (OpenSegment, ReadSegment, CloseSegment)
_READS = {"ReadMeta": _METAS, "ReadSegment": _SEGMENTS}
_UNSEEN = (
    *_METAS, *_SEGMENTS, MakeDir, FsyncParent, OpenLock, LockTry, CheckLock, CloseLock,
)  # fmt: skip
_HALTS = {"ReadMeta": OpenMeta, "ReadSegment": OpenSegment}
_COMPACTS = ("UnlinkSegment", "FsyncQueueDir")
_EITHER = ("retire.UnlinkSegment",)
"""Poisoned or not: the end of a compaction, where a failure harms nobody, or of an open."""


class DeliveryWorld:
    """The engine in one state of a graph of Delivery."""

    def __init__(self, model: DeliveryModel, state: int) -> None:
        self._model = model
        self._worker: DeliveryWorker | None = None
        files: dict[str, Content] = {f"{DIRECTORY[1:]}/.keep": b""}
        for name, data in model.files(state).items():
            files[f"{DIRECTORY[1:]}/{name}"] = data
        mark = model.mark(state, _BOOT)
        if mark is not None:
            files[f"{DIRECTORY[1:]}/{LOCK}"] = mark
        self._machine = Machine(image_of(files), boot=f"boot-{_BOOT}")

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        pc = self._model.pc(source)
        if action == "ReadMark":
            limits = Limits(9, 8, segment_bytes(self._model.room), self._model.segments_max)
            self._worker = DeliveryWorker(SimFs(self._machine), limits)
        worker = self._worker
        if worker is None:
            raise Mismatch(f"the model takes {action}, and the engine is down")
        if action in ("Kill", "KillInWrite"):
            if action == "KillInWrite":
                self._write_front(worker, source, target)
            elif pc == "poisoned" and source % 2 and worker.queue is not None:
                worker.begin("close")
                self._settle(worker, "down")
            return self.close()
        if pc in ("down", "poisoned"):
            if worker.queue is None:
                worker.open()
            else:
                worker.begin("recover")
            while worker.call is not None and worker.call.pending.action != action:
                self._check_end(worker.perform(), pc)
        elif pc == "idle":
            self._enter(worker, source, action, target)
        self._take(worker, source, action, target)

    def _write_front(self, worker: DeliveryWorker, source: int, target: int) -> None:
        self._enter_change(worker, self._model.change(source, target, "part"))
        assert worker.call is not None and isinstance(worker.call.pending, AppendEvent)
        _append_front(worker, worker.call.pending)

    def _enter(self, worker: DeliveryWorker, source: int, action: str, target: int) -> None:
        """Make sure that the call under way is one that takes this step."""
        model = self._model
        if action == "AppendEvent":
            out = model.outcome(source, target)
            return self._enter_change(worker, model.change(source, target, out))
        standing = worker.call
        if standing is not None and standing.pending.action == action == "CreateSegment":
            return
        worker.abandon()
        if action == "ClearMark":
            return worker.begin("close")
        next_number = model.value(source, "me")["high"] + 1
        changes = model.may_change(source) or [(next_number, "p")]
        worker.begin_change(changes[source % len(changes)])  # compacts if the log is full
        if worker.call is None or worker.call.pending.action != action:
            worker.abandon()
            worker.begin("compact")

    def _enter_change(self, worker: DeliveryWorker, change: Change) -> None:
        call = worker.call
        if call is not None and (call.change != change or call.pending.action != "AppendEvent"):
            worker.abandon()
        if worker.call is None:
            worker.begin_change(change)

    # --- taking a step --------------------------------------------------------------------------

    def _take(self, worker: DeliveryWorker, source: int, action: str, target: int) -> None:
        call, pc2 = worker.call, self._model.pc(target)
        if action in _READS:
            while worker.call is not None and isinstance(worker.call.pending, _READS[action]):
                self._check_end(worker.perform(), pc2)
        elif call is None or call.pending.action != action:
            would = "no step" if call is None else call.pending.action
            raise Mismatch(f"the model takes {action}, the engine would take {would}")
        elif self._model.fails(source, target):
            op, out = call.pending, self._model.outcome(source, target)
            if isinstance(op, AppendEvent) and out == "part":
                self._check_end(worker.resume(_append_front(worker, op), None), pc2)
            error = OSError(errno.EIO, "Input/output error")
            self._check_end(worker.resume(None, error), pc2)
        else:
            self._check_end(worker.perform(), pc2)
        self._settle(worker, pc2)

    def _settle(self, worker: DeliveryWorker, pc: str) -> None:
        """Take the steps that the model has not got."""
        while worker.call is not None and self._is_unseen(worker.call.pending, pc):
            self._check_end(worker.perform(), pc)

    def _is_unseen(self, op: Op[object], pc: str) -> bool:
        if isinstance(op, CreateMeta):  # the file is in its way: the model unlinks it at once
            return self._machine.look_up(op.path) is not None
        halt = _HALTS.get(pc)
        return isinstance(op, _UNSEEN) and not (halt is not None and isinstance(op, halt))

    def _check_end(self, ended: Ended | None, pc: str) -> None:
        """A call that returns must end as the model says."""
        if ended is None:
            return
        call, outcome = ended.call, ended.outcome
        raised = type(outcome) if isinstance(outcome, Exception) else None
        if raised is not {"poisoned": StorageError, "corrupt": DeliveryCorrupt}.get(pc):
            raise Mismatch(f"{call.entry} ends with {outcome!r}, in the model it is {pc}")
        if isinstance(outcome, StorageError) and outcome.definite and call.entry != "open":
            raise Mismatch(f"{call.entry} ends with {outcome!r}, and says that nothing happened")
        if ended.wrong_answer():
            raise Mismatch(f"{call.entry} of {call.change} answers {outcome}")
        if call.entry == "close":
            self.close()

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        model, pc, worker = self._model, self._model.pc(state), self._worker
        pending, rest = self._at(pc)
        fs = None if worker is None else worker.fs
        shown = model.engine_view(state, self._machine, fs, pending, rest)
        wanted = dict(model.view(state))
        queue = None if worker is None else worker.queue
        if queue is None or worker is None:
            wanted.pop("memory", None)  # an open has failed, see above
        elif pc not in LOADING:
            shown["memory"] = engine_memory(model, queue._log, queue._ledger, worker.fs)
        compare_views(shown, wanted)
        if worker is None or queue is None:
            return
        is_poisoned = pc != "idle" or worker.call is not None
        if pc not in (*LOADING, *_EITHER) and queue._poisoned != is_poisoned:
            raise Mismatch(f"at {pc} the engine is poisoned: {queue._poisoned}")
        if pc == "poisoned":
            _check_poisoned(queue)
        elif pc == "idle" and worker.call is None:
            self._look_around(state, worker, queue._ledger.high)

    def _at(self, pc: str) -> tuple[Op[object] | None, str]:
        """The engine's next step, and how it stands without one."""
        worker = self._worker
        if worker is None:
            return None, "down"
        if worker.call is not None:
            change = worker.call.change
            if pc == "idle" and change is not None and change[0] not in self._model.sequences:
                return None, pc  # the model has no more numbers, the engine has
            return worker.call.pending, ""
        if worker.queue is not None and not worker.queue._poisoned:
            return None, "ReadSegment" if pc == "ReadSegment" else "idle"
        return None, pc if pc in ("poisoned", "corrupt") else "no instance"

    def _look_around(self, state: int, worker: DeliveryWorker, high: int) -> None:
        """Between calls: what the model allows begins, with a step of its own, or is refused for
        want of room; everything else is refused."""
        model, allowed = self._model, self._model.may_change(state)
        may_compact = model.value(state, "left")["compactions"] > 0
        changes = [(s, t) for s in model.sequences if s <= high for t in ("p", "c", "-", "x")]
        if high + 1 in model.sequences:
            changes.append((high + 1, "p"))
        for change in changes:
            answer = result_of(worker.begin_change(change))
            action = "" if worker.call is None else worker.call.pending.action
            worker.abandon()
            if bool(action) != (change in allowed) and answer is not Result.FULL:
                raise Mismatch(f"{change} begins with {action or answer}, it is allowed: {allowed}")
            excused = action in _COMPACTS and not may_compact
            if action and action not in model.labels[state] and not excused:
                raise Mismatch(f"{change} begins with {action}, which has no edge")


def _append_front(worker: DeliveryWorker, op: AppendEvent) -> int:
    """A write that takes all but the footer."""
    return worker.fs.append(op.fd, op.data[:-FOOTER_BYTES])


def _check_poisoned(queue: Queue) -> None:
    try:
        queue.items()
    except DeliveryPoisoned:
        return
    raise Mismatch("the model is poisoned, and the engine shows its items")


class Side:
    """Delivery beside the engine, for `lychgate walk`."""

    rebuilds = frozenset(("HostCrash", "Foreign"))

    def __init__(self, graph: Graph, config: str) -> None:
        self._model = DeliveryModel(graph, config)

    def starts(self) -> list[int]:
        """States without a process: they can be built as they are."""
        states = range(len(self._model.graph.states))
        return [state for state in states if self._model.pc(state) == "down"]

    def world(self, state: int) -> DeliveryWorld:
        return DeliveryWorld(self._model, state)
