"""One worker of module Store: a process with the disk backend, and a queue's programs over it.

A fiber stands before a call on the backend, before the run of a task, or inside a call before one
of its steps. Calls begin only when their first step is taken: so no fiber has a flag in memory that
another one of its worker would have to wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lychgate import LychgateError
from lychgate import _queue_flow as flow
from lychgate._backend import CHANGES, Call, sync
from lychgate._disk import DiskPrograms
from lychgate._drive import run
from lychgate._op import Op
from lychgate._queue_core import Core, Limits, Phase, Wakeups
from lychgate._queue_drive import Effect, Program, Run
from lychgate._records import JSON, DeadTask
from lychgate._task import Registry
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.queue_worker import ABILITIES, StillClock

DIRECTORY = "/s"
PREFIX = "p-"
_NEVER_S = 1e9


class Fiber:
    """A program of the queue under way; `task_id`: what it has in hand."""

    def __init__(self, worker: ComposedWorker, program: Program[Any], task_id: str) -> None:
        self._worker = worker
        self._program = program
        self._call: Any = None
        self.task_id = task_id
        self.effect: Effect | None = program.send(None)
        self.op: Op[Any] | None = None
        self.outcome: object = None

    @property
    def at(self) -> str:
        """Where it stands: the next step, else the call or `run` that comes next, else `end`."""
        if self.op is not None:
            return self.op.action
        if self.effect is None:
            return "end"
        return self.effect.method if isinstance(self.effect, Call) else "run"

    @property
    def is_drop(self) -> bool:
        """Whether the call is a removal of dead tasks."""
        return isinstance(self.effect, Call) and self.effect.method == "remove_dead_tasks"

    def step(self, error: OSError | None = None) -> None:
        """Take the next step, or let it fail; before a call, begin it."""
        if self.op is None:
            assert isinstance(self.effect, Call) and error is None
            method: Callable[..., Any] = getattr(self._worker.disk, self.effect.method)
            self._call = method(*self.effect.args)
            self._resume(None, None)
            return
        result: object = None
        if error is None:
            try:
                result = self.op.perform(self._worker.fs)
            except OSError as raised:
                error = raised
        self._resume(result, error)

    def _resume(self, result: object, error: OSError | None) -> None:
        try:
            self.op = self._call.send(result) if error is None else self._call.throw(error)
            return
        except StopIteration as stop:
            value, raised = stop.value, None
        except LychgateError as refused:
            value, raised = None, refused
        assert isinstance(self.effect, Call)
        if self.effect.method in CHANGES:
            self._worker.core.touched()
        self.op, self._call = None, None
        self.answer(value, raised)

    def answer(self, value: object, error: BaseException | None) -> None:
        """Give the queue's program what its effect came to."""
        try:
            if error is None:
                self.effect = self._program.send(value)
            else:
                self.effect = self._program.throw(error)
            return
        except StopIteration as stop:
            self.outcome = stop.value
        except LychgateError as raised:
            self.outcome = raised
        self.effect = None

    def until(self, *stops: str) -> None:
        """Go on until the next step is one of these, or the program ends."""
        while self.effect is not None and not isinstance(self.effect, Run):
            self.step()
            if self.at in stops:
                return

    def close(self) -> None:
        """Thrown away in a crash."""
        if self._call is not None:
            self._call.close()
        self._program.close()


class ComposedWorker:
    """A process that runs."""

    def __init__(self, fs: SimFs, registry: Registry) -> None:
        self.fs = fs
        self.disk = DiskPrograms(DIRECTORY, PREFIX, _NEVER_S, JSON, fs)
        nothing = Wakeups(lambda: None, lambda: None, lambda: None)
        limits = Limits(crashes_max=1000)
        lock = threading.RLock()
        self.core = Core(ABILITIES, registry, limits, StillClock(), lock, nothing)
        self.core.taking = True
        self.fibers: dict[Any, Fiber] = {}

    def open(self) -> None:
        """The first worker of all makes the store, too."""
        run(self.disk.open(), self.fs)

    def take(self) -> None:
        """A start without its republishing, which is the next change's business as well."""
        run(self.disk._wal.start(), self.fs)
        self.whole(flow.load(self.core))

    def whole(self, program: Program[Any]) -> object:
        """A program from beginning to end."""
        fiber = Fiber(self, program, "")
        fiber.until()
        return fiber.outcome

    def sync(self) -> None:
        async def program() -> None:
            await sync()

        self.whole(program())

    def begin(self, p: object, program: Program[Any], task_id: str) -> Fiber:
        fiber = self.fibers[p] = Fiber(self, program, task_id)
        return fiber

    def revive(self, p: object, dead: DeadTask) -> Fiber:
        """`retry_dead` from the moment at which it has found the dead task."""

        async def program() -> None:
            await flow._add_again(self.core, dead)
            await flow._remove_dead(self.core, [dead.task_id])

        return self.begin(p, program(), dead.task_id)

    def waiting(self) -> frozenset[str]:
        """Tasks in memory that no fiber has in hand."""
        items = self.core._items.items()
        return frozenset(key for key, item in items if item.phase is Phase.WAITING)

    def end(self) -> None:
        """The process is gone: no program takes another step."""
        self.fs.kill()
        for fiber in self.fibers.values():
            fiber.close()
