"""Traces of the dead-task store on real files: one process, several fibers under asyncio.

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
from unittest import mock

from lychgate import DeadTasksLockTimeout, StorageError, _lock
from lychgate._disk import DiskPrograms
from lychgate._drive import drive
from lychgate._op import Program
from lychgate._osfs import OsFs
from lychgate._records import JSON

from lychgate_tools.trace.dead_eyes import DeadEyes, cells_of_lines, reader_of
from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder, outcome_of

PREFIX = "p-"
SLEEP_S = 0.0005
TRIES = 40
_WORKER = "w1"


def record(out: TextIO, seed: int, calls: int, fibers: int = 4, records: int = 8) -> int:
    """Let the fibers make `calls` calls each and write the trace; how many steps it has."""
    chance = Random(seed)
    source = f"asyncio on real files, seed {seed}, {fibers} fibers of {calls} calls"
    with (
        tempfile.TemporaryDirectory(prefix="lychgate-trace-") as directory,
        mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", TRIES),
        mock.patch.object(_lock, "LOCK_SLEEP_S", SLEEP_S),
    ):
        fs = OsFs()
        eyes = DeadEyes(reader_of(directory, PREFIX), cells_of_lines, fs.boot)
        constants = {"MaxTries": TRIES, "CrashModel": False}
        recorder = Recorder(Writer(out, "DeadTasks", source, constants, eyes.seen()), eyes)
        programs = DiskPrograms(directory, PREFIX, 0.5, JSON, fs)
        try:
            asyncio.run(_run(recorder, programs, fs, chance, calls, fibers, records))
        finally:
            fs.close_all()
        return recorder.steps


async def _run(
    recorder: Recorder,
    programs: DiskPrograms,
    fs: OsFs,
    chance: Random,
    calls: int,
    fibers: int,
    records: int,
) -> None:
    recorder.world("Restart", _WORKER)

    async def one(fiber: str, op: str, record: str) -> None:
        recorder.call(_WORKER, fiber, op, record)
        program = program_of(programs, op, record)
        error: BaseException | None = None
        try:
            await drive(program, fs, recorder.observer(_WORKER, fiber))
        except (StorageError, DeadTasksLockTimeout) as raised:
            error = raised
        recorder.returned(_WORKER, fiber, op, record, outcome_of(error))

    async def work(fiber: str) -> None:
        for _ in range(calls):
            await one(fiber, *choose(chance, records))
            await asyncio.sleep(chance.random() * SLEEP_S)

    await one("f1", "prepare", "")
    await asyncio.gather(*(work(f"f{number}") for number in range(1, fibers + 1)))


def choose(chance: Random, records: int) -> tuple[str, str]:
    """A call and its record."""
    op = chance.choice(("add", "add", "remove", "list"))
    return op, f"r{chance.randrange(records)}" if op != "list" else ""


def program_of(programs: DiskPrograms, op: str, record: str) -> Program[Any]:
    """The call on the backend, as a program."""
    if op == "add":
        return programs.add_dead_task(record, {"n": record}, ValueError("no"), "Task", 3)
    if op == "remove":
        return programs.remove_dead_tasks([record])
    if op == "list":
        return programs.list_dead_tasks()
    assert op == "prepare", op
    return programs._dead.prepare()
