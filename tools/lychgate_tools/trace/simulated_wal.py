"""Traces of the tasks WAL on the simulated file system: several workers, one call at a time each.

As in `simulated`, one thread drives all programs and a seeded generator chooses who goes next.
Workers start, add, remove, sync, rotate (the limit of a file's size is a few records), close, start
again, and are killed between any two steps, so that others take over what they left. Calls fail,
writes are short. Without host crashes: the spec keeps of a file that a crash left its valid records
alone, so that what can be seen of it is not what the spec has.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TextIO
from unittest import mock

from lychgate import _wal
from lychgate._ids import TaskIds
from lychgate._op import Op, Program
from lychgate._ops import (
    AppendWal,
    ClaimOpen,
    CloseWal,
    CopyWal,
    CreateWal,
    FsyncWal,
    FsyncWalDir,
    ListWals,
    ReadWal,
    TruncateWal,
    UnlinkWal,
)
from lychgate._records import JSON, wal_add_line
from lychgate._stats import Stats
from lychgate._wal import Wal
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._faults import Fault, Loss
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder
from lychgate_tools.trace.running import Running
from lychgate_tools.trace.wal_eyes import Labels, WalEyes

DIRECTORY, PREFIX = "/s", "p-"
ROTATE_BYTES = 160
FIBER = "f1"
_MAY_FAIL = (
    AppendWal, ClaimOpen, CopyWal, CreateWal, FsyncWal, FsyncWalDir, ReadWal, TruncateWal,
    UnlinkWal,
)  # fmt: skip


@dataclass(frozen=True)
class WalPlan:
    """What a recorded run is made of."""

    seed: int
    calls: int = 20
    workers: int = 3
    kills: int = 2
    eager: bool = True
    fails: int = 0  # calls that fail, or writes that are short


@dataclass
class _Process:
    fs: SimFs
    wal: Wal
    live: set[str] = field(default_factory=set)  # its tasks, as its caller knows them
    call: Running | None = None
    before: Op[Any] | None = None  # its last step
    copied: bool = False  # whether it has copied a piece, and may copy another
    closed: bool = False  # whether the last step of its last call was a CloseWal


def record(out: TextIO, plan: WalPlan) -> int:
    """Run the plan and write its trace; how many steps of the engine it has."""
    with mock.patch.object(_wal, "ROTATE_BYTES", ROTATE_BYTES):
        run = _Run(out, plan)
        for _ in run.moves():
            pass
        return run.recorder.steps


class _Run:
    def __init__(self, out: TextIO, plan: WalPlan) -> None:
        self.plan = plan
        self.chance = Random(plan.seed)
        self.machine = Machine(image_of({f"{DIRECTORY[1:]}/.keep": b""}))
        eyes = WalEyes(self._look, PREFIX, Labels())
        source = f"simulator, seed {plan.seed}, {plan.calls} calls of {plan.workers} workers"
        writer = Writer(out, "Wal", source, {"Eager": plan.eager}, eyes.seen())
        self.recorder = Recorder(writer, eyes)
        self.workers: dict[str, _Process | None] = {
            f"w{number}": None for number in range(1, plan.workers + 1)
        }
        self.calls_left, self.kills_left, self.added = plan.calls, plan.kills, 0
        self.fails_left = plan.fails

    def _look(self) -> dict[str, bytes]:
        nodes = self.machine.disk.nodes
        entries = self.machine.directory(DIRECTORY).entries
        return {name: bytes(nodes[inode].data) for name, inode in entries.items()}

    # --- who goes next --------------------------------------------------------------------------

    def moves(self) -> Iterator[None]:
        while True:
            running = [w for w, p in self.workers.items() if p is not None and p.call is not None]
            idle = [w for w, p in self.workers.items() if p is None or p.call is None]
            if self.kills_left and running and self.chance.random() < 0.02:
                self._kill(self.chance.choice(running))
            elif idle and self.calls_left and (not running or self.chance.random() < 0.2):
                self.calls_left -= 1
                self._call(self.chance.choice(idle))
            elif running:
                w = self.chance.choice(running)
                if self.fails_left and self.chance.random() < 0.05:
                    self._let_fail(w)
                self._step(w)
            else:
                return
            yield

    def _kill(self, w: str) -> None:
        """Not between the pieces of one step of the spec: `wal_pieces` could not join them."""
        process = self.workers[w]
        assert process is not None and process.call is not None
        if isinstance(process.call.pending, (CopyWal, ReadWal)):
            return
        if isinstance(process.call.pending, ListWals):
            return  # it is not there yet, to the spec
        self.kills_left -= 1
        process.fs.kill()
        process.call.program.close()
        self.workers[w] = None
        self.recorder.world("Kill", w)

    def _let_fail(self, w: str) -> None:
        """The next step fails, or writes all but the newline. Not in a close, which goes on to
        its end and leaves what a kill leaves; nor between pieces that `wal_pieces` joins."""
        process = self.workers[w]
        assert process is not None and process.call is not None
        pending, before = process.call.pending, process.before
        if not isinstance(pending, _MAY_FAIL) or process.call.op == "close" or process.copied:
            return
        if isinstance(pending, ReadWal) and isinstance(before, ReadWal):
            return
        self.fails_left -= 1
        fault = Fault(process.fs.calls + 1, errno.EIO, loss=Loss.CLEAN)
        if isinstance(pending, (AppendWal, CopyWal)) and self.chance.random() < 0.5:
            fault = Fault(process.fs.calls + 1, keep=len(pending.data) - 1)  # no newline
        process.fs.inject(fault)

    def _call(self, w: str) -> None:
        process = self.workers[w]
        op, name = "start", ""
        if process is None:
            fs = SimFs(self.machine)
            frequency = 0.0 if self.plan.eager else 1e9
            wal = Wal(DIRECTORY, PREFIX, frequency, fs, TaskIds(fs), Stats())
            process = self.workers[w] = _Process(fs, wal)
        else:
            op = self.chance.choice(("add", "add", "add", "remove", "sync", "close"))
            if op == "remove" and not process.live:
                op = "add"
            if op == "add":
                self.added += 1
                name = f"t{self.added}"
            elif op == "remove":
                name = self.chance.choice(sorted(process.live))
        process.closed = False
        self.recorder.call(w, FIBER, op, name)
        program = _program(process.wal, op, name)
        observe = self.recorder.observer(w, FIBER)
        try:
            pending = program.send(None)
        except StopIteration:
            return self._returned(w, process, op, name, "ok")
        process.call = Running(op, name, program, pending, observe)

    def _step(self, w: str) -> None:
        process = self.workers[w]
        assert process is not None and process.call is not None
        running, taken = process.call, process.call.pending
        outcome = running.advance(process.fs)
        process.fs.inject(None)
        process.before = taken
        process.copied = isinstance(taken, CopyWal) or (
            process.copied and isinstance(taken, ReadWal)
        )
        process.closed = isinstance(taken, CloseWal)
        if outcome is not None:
            process.call = None
            self._returned(w, process, running.op, running.record, outcome)

    def _returned(self, w: str, process: _Process, op: str, name: str, outcome: str) -> None:
        self.recorder.returned(w, FIBER, op, name, outcome)
        if op == "add" and outcome == "ok":
            process.live.add(name)
        elif op == "remove":
            process.live.discard(name)
        elif op == "close":
            process.fs.kill()
            self.workers[w] = None
            if not process.closed:  # it had no file, and ends without a step
                self.recorder.world("Kill", w)
        elif op == "start" and outcome != "ok":
            process.fs.kill()
            self.workers[w] = None
            self.recorder.world("Quit", w)


def _program(wal: Wal, op: str, name: str) -> Program[Any]:
    if op == "add":
        return wal.add(name, wal_add_line(JSON, name, None, None))
    if op == "remove":
        return wal.remove(name)
    return {"start": wal.start, "sync": wal.sync, "close": wal.close}[op]()
