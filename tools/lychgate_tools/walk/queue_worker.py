"""One worker of module Queue: a queue's memory, the programs of its fibers, and the shelf that they
put tasks on in place of a backend.

The shelf shows what the running system shows. What a host crash may make of it is the model's
business, so it knows nothing of durability.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lychgate import _queue_flow as flow
from lychgate._backend import CHANGES, Abilities, Call
from lychgate._clock import SystemClock
from lychgate._queue_core import Core, Item, Limits, Phase, Wakeups
from lychgate._queue_drive import Effect, Program, drive
from lychgate._records import DeadTask
from lychgate._task import Registry

NOW = 1_700_000_000.0
ABILITIES = Abilities(
    tick=True, sync=True, stats=False, close=False, claims=False, claim_interval=0.0
)


class StillClock(SystemClock):
    """Time stands still: a task that is due later is one that no fiber has taken yet."""

    def now(self) -> float:
        return NOW


def successor(task_id: str) -> str:
    """The id that the next retry of a dead task gets; a job's first is `name/0`."""
    job, _, number = task_id.partition("/")
    return f"{job}/{int(number) + 1}"


def take_first(core: Core, task_id: str) -> Item | None:
    """What a queue takes, were this task the first of those that wait."""
    ready, suspects, item = core._ready, core._suspects, core._items[task_id]
    core._ready = deque(i for i in ready if i is item)
    core._suspects = deque(i for i in suspects if i is item)
    taken = core.take()
    core._ready = deque(i for i in ready if i is not item)
    core._suspects = deque(i for i in suspects if i is not item)
    return taken


@dataclass
class Shelf:
    """Tasks with their owners, and dead tasks."""

    tasks: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)
    dead: dict[str, DeadTask] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def perform(self, w: object, call: Call[Any]) -> object:
        """Make a worker's call."""
        method: Callable[..., object] = getattr(self, f"_{call.method}")
        return method(w, *call.args)

    def _add_task(self, w: object, task: Any, publish_at: object, task_id: str | None) -> str:
        if task_id is None:
            link = task["retry_of"]
            task_id = f"{task['task']}/0" if link is None else successor(link)
            assert task_id not in self.used, "a fresh id"
            self.used.add(task_id)
        self.tasks[task_id], self.owners[task_id] = task, w
        return task_id

    def _remove_task(self, w: object, task_id: str) -> None:
        assert self.owners.pop(task_id) == w, "a worker removes its own tasks"
        del self.tasks[task_id]

    def _pending_tasks(self, w: object) -> list[tuple[str, object, None]]:
        """A start takes every task without an owner (W2), in any order: here those last whose
        count may be used up, since the start gives them up before it goes on."""
        self.owners = {key: w if owner is None else owner for key, owner in self.owners.items()}
        mine = [key for key, owner in self.owners.items() if owner == w]
        mine.sort(key=lambda key: self.tasks[key]["crashes"] + self.tasks[key]["running"])
        return [(key, self.tasks[key], None) for key in mine]

    def _add_dead_task(
        self, w: object, task_id: str, context: object, error: object, name: str, attempts: int
    ) -> None:
        self.dead[task_id] = DeadTask(task_id, name, attempts, context, "E", str(error), NOW)

    def _find_dead_task(self, w: object, task_id: str) -> DeadTask | None:
        return self.dead.get(task_id)

    def _remove_dead_tasks(self, w: object, task_ids: list[str]) -> int:
        return len([self.dead.pop(task_id) for task_id in task_ids if task_id in self.dead])

    def _sync(self, w: object) -> None:
        pass

    def _tick(self, w: object, now: float) -> None:
        pass

    def disown(self, w: object) -> None:
        """The worker is gone."""
        self.owners = {key: None if owner == w else owner for key, owner in self.owners.items()}


@dataclass
class Running:
    """A program under way, before its next effect; `task_id`: what it has in hand."""

    program: Program[Any]
    effect: Effect
    task_id: str


class QueueWorker:
    """A process that runs."""

    def __init__(self, w: object, shelf: Shelf, registry: Registry, limits: Limits) -> None:
        self.w = w
        self.shelf = shelf
        nothing = Wakeups(lambda: None, lambda: None, lambda: None)
        self.core = Core(ABILITIES, registry, limits, StillClock(), threading.RLock(), nothing)
        self.core.taking = True
        self.fibers: dict[object, Running] = {}
        self.loading: Running | None = None  # gives up what took too many workers with it

    def load(self) -> None:
        """Start: the first call of `load` and, unless something is to be given up, all of it."""
        program = flow.load(self.core)
        running = Running(program, program.send(None), "")
        self.loading = running
        if self.advance(running, self.perform(running.effect), None):
            self.loading = None
        else:
            assert isinstance(running.effect, Call), "it gives something up"
            running.task_id = str(running.effect.args[0])

    def begin(self, p: object, program: Program[Any], task_id: str) -> None:
        """A program for a fiber, up to its first effect."""
        self.fibers[p] = Running(program, program.send(None), task_id)

    def advance(self, running: Running, result: object, error: BaseException | None) -> bool:
        """Give a program its effect's result; whether that was its end."""
        try:
            if error is None:
                running.effect = running.program.send(result)
            else:
                running.effect = running.program.throw(error)
            return False
        except StopIteration:
            return True

    def whole(self, program: Program[Any]) -> None:
        """A program from beginning to end, that no other step comes between."""
        drive(program, self.perform)

    def perform(self, effect: Effect) -> object:
        """Make a call as both queues do."""
        assert isinstance(effect, Call), "no task runs here"
        try:
            return self.shelf.perform(self.w, effect)
        finally:
            if effect.method in CHANGES:
                self.core.touched()

    def waiting(self) -> frozenset[str]:
        """Tasks in memory that no fiber has in hand, those included that a start will give up."""
        found = {key for key, i in self.core._items.items() if i.phase is Phase.WAITING}
        return frozenset(found if self.loading is None else {*found, self.loading.task_id})

    def end(self) -> None:
        """The process is gone: no program takes another step."""
        for running in [*self.fibers.values(), *([self.loading] if self.loading else [])]:
            running.program.close()
        self.shelf.disown(self.w)
