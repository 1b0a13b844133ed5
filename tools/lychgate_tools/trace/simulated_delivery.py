"""Traces of the delivery queue on the simulated file system: one instance, killed and opened again.

A seeded generator chooses the calls, the step before which the process is killed, the write in
which it is, and the calls that fail. A process whose open has failed ends; an instance that is
poisoned recovers. Once, behind a clean end, somebody leaves garbage behind the last record. Without
host crashes, as the traces of the WAL.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from random import Random
from typing import Any, TextIO

from lychgate._delivery_codec import Place
from lychgate._delivery_files import Log
from lychgate._delivery_ops import (
    AppendEvent,
    CopyItems,
    CreateSegment,
    FsyncMeta,
    FsyncQueueDir,
    FsyncSegment,
    RenameMeta,
    UnlinkSegment,
    WriteMeta,
)
from lychgate._op import Op
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._faults import Fault, Loss
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.trace.delivery_calls import CONSTANTS, DeliveryCaller, new_queue, program
from lychgate_tools.trace.delivery_eyes import DeliveryEyes
from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder
from lychgate_tools.trace.running import Running
from lychgate_tools.walk.delivery_cells import FOOTER_BYTES, Writer as CellWriter
from lychgate_tools.walk.delivery_view import DIRECTORY
from lychgate_tools.walk.delivery_worker import Queue

_WORKER, _FIBER = "w1", "f1"
_MAY_FAIL = (
    AppendEvent, CopyItems, CreateSegment, FsyncMeta, FsyncQueueDir, FsyncSegment, RenameMeta,
    UnlinkSegment, WriteMeta,
)  # fmt: skip


@dataclass(frozen=True)
class DeliveryPlan:
    """What a recorded run is made of."""

    seed: int
    calls: int = 20
    kills: int = 2
    fails: int = 0  # calls that fail, or writes that are short


def record(out: TextIO, plan: DeliveryPlan) -> int:
    """Run the plan and write its trace; how many steps of the engine it has."""
    run = _Run(out, plan)
    run.all()
    return run.recorder.steps


class _Run:
    def __init__(self, out: TextIO, plan: DeliveryPlan) -> None:
        self.plan = plan
        self.chance = Random(plan.seed)
        self.machine = Machine(image_of({f"{DIRECTORY[1:]}/.keep": b""}))
        self.eyes = DeliveryEyes(self._look, lambda: self.machine.boot)
        source = f"simulator, seed {plan.seed}, {plan.calls} calls"
        writer = Writer(out, "Delivery", source, CONSTANTS, self.eyes.seen())
        self.recorder = Recorder(writer, self.eyes)
        self.kills_left, self.fails_left = plan.kills, plan.fails
        self.fs: SimFs | None = None
        self.queue: Queue | None = None
        self.last = ""  # the last event
        self.is_hurt = False
        self.observe = self.recorder.observer(_WORKER, _FIBER)

    def _look(self) -> dict[str, bytes]:
        nodes = self.machine.disk.nodes
        entries = self.machine.directory(DIRECTORY).entries
        return {name: bytes(nodes[inode].data) for name, inode in entries.items()}

    def _observer(self, op: Op[Any], result: object, error: BaseException | None) -> None:
        steps = self.recorder.steps
        self.observe(op, result, error)
        if self.recorder.steps > steps:
            self.last = op.action

    def all(self) -> None:
        caller = DeliveryCaller(self.chance, "")
        for _ in range(self.plan.calls):
            self.machine.clock += 30.0  # a lease runs out between two calls now and then
            if self.queue is None:
                self.fs = SimFs(self.machine)
                self.queue = new_queue(DIRECTORY, self.fs)
                self._call("open", "")
            elif self.queue.stats()["poisoned"]:
                self._call("recover", "")
            elif self.chance.random() < 0.07:
                self._call("close", "")
            else:
                self._call(*caller.next())

    def _call(self, op: str, what: str) -> None:
        queue, fs = self.queue, self.fs
        assert queue is not None and fs is not None
        self.recorder.call(_WORKER, _FIBER, op, what)
        self.last = "Call"
        end = queue._log.end() if queue._log.segments else None
        running = program(queue, op, what)
        outcome: str | None = "ok"
        try:
            call = Running(op, what, running, running.send(None), self._observer)
        except StopIteration:
            self.recorder.returned(_WORKER, _FIBER, op, what, "ok")
            return
        outcome = None
        while outcome is None:
            if self._is_killed(call, fs):
                return
            self._let_fail(call, fs, op)
            outcome = call.advance(fs)
        fs.inject(None)
        self.recorder.returned(_WORKER, _FIBER, op, what, outcome)
        if op == "open" and outcome != "ok":
            self.recorder.world("Kill", _WORKER)
            self._end()
        elif op == "close":
            self._end()
            if end is not None and not self.is_hurt:
                self._hurt(queue._log, end)

    def _is_killed(self, call: Running, fs: SimFs) -> bool:
        """Not before the first step of an open or after the last of a close: nobody is there then,
        to the spec."""
        op = call.pending
        likely = 0.08 if isinstance(op, AppendEvent) else 0.02
        is_there = self.last != "ClearMark" and (call.op, self.last) != ("open", "Call")
        if not self.kills_left or not is_there or self.chance.random() > likely:
            return False
        self.kills_left -= 1
        if isinstance(op, AppendEvent) and len(op.data) > FOOTER_BYTES:
            described = self.eyes.describe(_WORKER, op, len(op.data), None)
            assert described is not None
            fs.append(op.fd, op.data[:-FOOTER_BYTES])
            self.recorder.world("KillInWrite", _WORKER, args=described.args)
        else:
            self.recorder.world("Kill", _WORKER)
        call.program.close()
        self._end()
        return True

    def _hurt(self, log: Log, place: Place) -> None:
        """Somebody else writes the front of a record behind the last one."""
        self.is_hurt = True
        data = CellWriter(place.generation).record("i1p", place)[:-FOOTER_BYTES]
        node = self.machine.look_up(log.segment_path(place.segment))
        assert node is not None
        self.machine.disk.write(node.number, place.offset, data)
        self.recorder.world("Foreign", args={"what": "tail"})

    def _end(self) -> None:
        assert self.fs is not None
        self.fs.kill()
        self.fs = self.queue = None

    def _let_fail(self, call: Running, fs: SimFs, op: str) -> None:
        pending = call.pending
        if not self.fails_left or fs.awaits_fault or not isinstance(pending, _MAY_FAIL):
            return
        if self.chance.random() > 0.05 or op == "close":
            return
        self.fails_left -= 1
        at = fs.calls + 1
        fault = Fault(at, errno.EIO, loss=self.chance.choice((Loss.CLEAN, Loss.KEPT)))
        if isinstance(pending, AppendEvent):
            keep = self.chance.choice((0, len(pending.data) - FOOTER_BYTES))
            fault = Fault(at, self.chance.choice((0, errno.EIO)) if keep else errno.EIO, keep)
        fs.inject(fault)
