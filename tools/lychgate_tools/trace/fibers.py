"""Traces on real files: one process, several fibers under asyncio.

The fibers are driven by the engine's own asyncio driver. All of them run in one thread, and the
observer is called there at once after the step, so that the order of the events is the order of
the steps. The one exception are fsyncs, which wait in a thread of their own: their event stands
where they have ended. No step of another fiber can tell where in between an fsync takes effect.
"""

from __future__ import annotations

import asyncio
import tempfile
from random import Random
from typing import Any, TextIO

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._drive import drive
from lychgate._osfs import OsFs

from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder, outcome_of
from lychgate_tools.trace.subjects import SLEEP_S, SUBJECTS, Caller, Subject, settings
from lychgate_tools.trace.wal_eyes import Labels

_WORKER = "w1"


def record(out: TextIO, seed: int, calls: int, subject: str = "dead", fibers: int = 4) -> int:
    """Let the fibers make `calls` calls each and write the trace; how many steps it has."""
    what = SUBJECTS[subject]
    source = f"asyncio on real files, seed {seed}, {fibers} fibers of {calls} calls"
    with tempfile.TemporaryDirectory(prefix="lychgate-trace-") as directory, settings():
        fs = OsFs()
        eyes = what.eyes(directory, fs.boot, Labels())
        recorder = Recorder(Writer(out, what.module, source, what.constants, eyes.seen()), eyes)
        run = _Run(what, recorder, what.programs(directory, fs), fs, Random(seed))
        try:
            asyncio.run(run.all(calls, fibers))
        finally:
            fs.close_all()
        return recorder.steps


class _Run:
    def __init__(
        self,
        subject: Subject,
        recorder: Recorder,
        programs: Any,
        fs: OsFs,
        chance: Random,
    ) -> None:
        self._subject = subject
        self._recorder = recorder
        self._programs = programs
        self._fs = fs
        self._chance = chance

    async def all(self, calls: int, fibers: int) -> None:
        if self._subject.restarts:
            self._recorder.world("Restart", _WORKER)
        await self._one("f1", self._subject.first, "")
        names = [f"f{number}" for number in range(1, fibers + 1)]
        await asyncio.gather(*(self._fiber(name, calls) for name in names))
        if self._subject.last:
            await self._one("f1", self._subject.last, "")

    async def _fiber(self, fiber: str, calls: int) -> None:
        caller: Caller = self._subject.caller(self._chance, fiber)
        for _ in range(calls):
            op, record = caller.next()
            caller.ended(op, record, await self._one(fiber, op, record))
            await asyncio.sleep(self._chance.random() * SLEEP_S)

    async def _one(self, fiber: str, op: str, record: str) -> str:
        self._recorder.call(_WORKER, fiber, op, record)
        error: BaseException | None = None
        program = self._subject.program(self._programs, op, record)
        try:
            await drive(program, self._fs, self._recorder.observer(_WORKER, fiber))
        except (StorageError, DeadTasksLockTimeout) as raised:
            error = raised
        outcome = outcome_of(error)
        self._recorder.returned(_WORKER, fiber, op, record, outcome)
        return outcome
