"""Traces of the dead-task store on the lab's simulated file system.

One thread drives all fibers and chooses by a seeded generator who goes next, so that the order of
the events is the order of the steps. With faults: a call fails or writes short, a worker is killed
between or inside its steps, the host crashes and one of the images that the lab enumerates for this
moment is mounted. A record has two cells of CELL bytes and the disk loses whole cells, as the spec
has it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TextIO
from unittest import mock

from lychgate import _lock
from lychgate._dead import DeadStore
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._op import Program
from lychgate._ops import AppendRecord, CloseLock, Sleep, WriteStaging
from lychgate._stats import Stats
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import image_set
from lychgate_conformance.lab._faults import Fault, Loss
from lychgate_conformance.lab._image import Content, Image, image_of
from lychgate_conformance.lab._models import PORTABLE
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.trace.dead_eyes import DeadEyes, cells_of_size
from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder
from lychgate_tools.trace.running import Running
from lychgate_tools.walk.calls import nothing, records_of
from lychgate_tools.walk.cells import CELL, line_of
from lychgate_tools.walk.store_worker import DIRECTORY, FILES, PREFIX

TRIES = 6
_WHOLE_CELLS = replace(PORTABLE, name="portable-cells", torn_prefixes=False)
_CALLS = ("add", "add", "add", "remove", "remove", "list", "list", "prepare")
_STARTS = ("new", "clean", "unclean", "torn")
_LOSSES = (Loss.KEPT, Loss.CLEAN)


@dataclass(frozen=True)
class Plan:
    """What a recorded run is made of; Faults: fail, kill, crash, remount, meddle."""

    seed: int
    calls: int = 12
    workers: int = 2
    fibers: int = 2
    records: int = 4
    faults: tuple[str, ...] = ()


@dataclass
class _Process:
    """A worker: its port, its backend object and the calls of its fibers."""

    fs: SimFs
    store: DeadStore
    calls: dict[str, Running] = field(default_factory=dict)


def record(out: TextIO, plan: Plan) -> int:
    """Run the plan and write its trace; how many steps of the engine it has."""
    with mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", TRIES):
        run = _Run(out, plan)
        for _ in run.moves():
            pass
        return run.recorder.steps


class _Run:
    def __init__(self, out: TextIO, plan: Plan) -> None:
        self.plan = plan
        self.chance = Random(plan.seed)
        self.records = [f"r{number}" for number in range(1, plan.records + 1)]
        self.boots = 1
        self.machine = self._mount(self._start())
        eyes = DeadEyes(self._read, cells_of_size(self.records), lambda: self.machine.boot)
        constants = {
            "MaxTries": TRIES,
            "CrashModel": bool(plan.faults),
        }
        source = f"simulator, seed {plan.seed}, {plan.calls} calls, faults {list(plan.faults)}"
        writer = Writer(out, "DeadTasks", source, constants, eyes.seen())
        self.recorder = Recorder(writer, eyes)
        self.workers: dict[str, _Process | None] = {
            f"w{number}": None for number in range(1, plan.workers + 1)
        }
        self.calls_left = plan.calls
        self.faults = list(plan.faults)

    # --- the disk -------------------------------------------------------------------------------

    def _start(self) -> Image:
        files: dict[str, Content] = {f"{DIRECTORY}/.keep": b""}
        start = self.chance.choice(_STARTS)
        if start != "new":
            some = self.chance.sample(self.records, self.chance.randrange(len(self.records)))
            data = b"".join(map(line_of, some))
            torn = line_of(self.chance.choice(self.records))[:CELL] if start == "torn" else b""
            files[FILES["live"][1:]] = data + torn
            mark = UNFINISHED_MARK if start == "unclean" else clean_mark("boot-1")
            files[FILES["lock"][1:]] = mark
        return image_of(files)

    def _mount(self, image: Image) -> Machine:
        return Machine(image, boot=f"boot-{self.boots}", unit=CELL)

    def _read(self, name: str) -> bytes | None:
        node = self.machine.look_up(FILES[name])
        return None if node is None else bytes(node.data)

    # --- who goes next --------------------------------------------------------------------------

    def moves(self) -> Iterator[None]:
        while True:
            running = [(w, f) for w, p in self.workers.items() if p for f in p.calls]
            self._meddle(running)
            running = [(w, f) for w, p in self.workers.items() if p for f in p.calls]
            down = [w for w, process in self.workers.items() if process is None]
            if down and (not running or self.chance.random() < 0.2):
                self._restart(self.chance.choice(down))
                yield
                continue
            idle = [
                (w, f)
                for w, p in self.workers.items()
                if p
                for f in self._fibers()
                if f not in p.calls
            ]
            if idle and self.calls_left and (not running or self.chance.random() < 0.15):
                self._call(*self.chance.choice(idle))
            elif running:
                self._step(*self.chance.choice(running))
            else:
                return
            yield

    def _fibers(self) -> list[str]:
        return [f"f{number}" for number in range(1, self.plan.fibers + 1)]

    def _meddle(self, running: list[tuple[str, str]]) -> None:
        """Now and then the world does something to a run that is under way."""
        if not self.faults or not running or self.chance.random() > 0.04:
            return
        what = self.faults.pop(self.chance.randrange(len(self.faults)))
        w, f = self.chance.choice(running)
        if what == "kill":
            self._kill(w, f)
        elif what in ("crash", "remount"):
            self._crash(what)
        elif what == "meddle":
            if self.machine.look_up(FILES["lock"]) is not None and not self.machine.locks:
                self.machine.unlink(FILES["lock"])
                self.recorder.world("DeleteLock")
        else:
            self._fail(w, f)

    # --- moves ----------------------------------------------------------------------------------

    def _restart(self, w: str) -> None:
        fs = SimFs(self.machine)
        self.workers[w] = _Process(fs, DeadStore(f"/{DIRECTORY}", PREFIX, fs, Stats()))
        self.recorder.world("Restart", w)

    def _call(self, w: str, f: str) -> None:
        process = self.workers[w]
        assert process is not None
        self.calls_left -= 1
        op = self.chance.choice(_CALLS)
        name = self.chance.choice(self.records) if op in ("add", "remove") else ""
        self.recorder.call(w, f, op, name)
        program = _program(process.store, op, name)
        observe = self.recorder.observer(w, f)
        process.calls[f] = Running(op, name, program, program.send(None), observe)

    def _step(self, w: str, f: str) -> None:
        process = self.workers[w]
        assert process is not None
        running = process.calls[f]
        outcome = running.advance(process.fs)
        if outcome is not None:
            del process.calls[f]
            self.recorder.returned(w, f, running.op, running.record, outcome)

    def _fail(self, w: str, f: str) -> None:
        """The next step of this fiber fails, or writes one cell of several."""
        process = self.workers[w]
        assert process is not None
        pending = process.calls[f].pending
        if isinstance(pending, (Sleep, CloseLock)):
            return  # a sleep cannot fail, and a lock that was closed is closed
        fault = Fault(process.fs.calls + 1, errno.EIO, loss=self.chance.choice(_LOSSES))
        if isinstance(pending, (AppendRecord, WriteStaging)) and self.chance.random() < 0.5:
            if len(pending.data) > CELL:
                fault = Fault(process.fs.calls + 1, keep=CELL)
        process.fs.inject(fault)
        self._step(w, f)
        process.fs.inject(None)

    def _kill(self, w: str, f: str) -> None:
        process = self.workers[w]
        assert process is not None
        action, pending = "Kill", process.calls[f].pending
        if isinstance(pending, (AppendRecord, WriteStaging)) and len(pending.data) > CELL:
            action = "KillInWrite"
            process.fs.append(pending.fd, pending.data[:CELL])
        process.fs.kill()
        self._forget(w)
        self.recorder.world(action, w, f if action == "KillInWrite" else "")

    def _crash(self, what: str) -> None:
        """The host goes down, or its storage within one boot, and one of the legal images comes
        back. Those that cut a line inside a cell are left out, as the spec leaves them out."""
        found = [
            image
            for image in image_set(self.machine.disk, _WHOLE_CELLS).images()
            if all(len(image.files().get(FILES[name], b"")) % CELL == 0 for name in ("live", "tmp"))
        ]
        self.machine.crash()
        for w in self.workers:
            self._forget(w)
        self.boots += what == "crash"
        self.machine = self._mount(self.chance.choice(found))
        self.recorder.world("HostCrash" if what == "crash" else "Remount")

    def _forget(self, w: str) -> None:
        process = self.workers[w]
        for running in process.calls.values() if process is not None else ():
            running.program.close()
        self.workers[w] = None


def _program(store: DeadStore, op: str, name: str) -> Program[Any]:
    if op == "add":
        return store.add(line_of(name))
    if op == "remove":
        return store.remove(frozenset((name.encode("ascii"),)))
    if op == "list":
        return records_of(store)
    return store.prepare() if op == "prepare" else store._locked(nothing)
