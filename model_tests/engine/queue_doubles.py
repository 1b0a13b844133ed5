"""Doubles for the queue's tests: a store in memory, a clock that is moved by hand.

`MemoryStore` is a backend with what matters of a disk: a WAL whose changes are the kernel's at once
and durable at the next sync, dead tasks that are durable at once, and owners (`due_unclaimed`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from lychgate._aio_queue import Queue as AioQueue
from lychgate._backend import ClaimLost
from lychgate._queue import Queue
from lychgate._queue_core import Limits
from lychgate._records import DeadTask
from lychgate._task import Registry


class Broken(Exception):
    """A call of the store failed."""


@dataclass
class FakeClock:
    """Time that the test moves, or that a wait moves on when nothing else happens.

    While `busy` says that a task runs, it stands still, so that a slow machine changes nothing.
    """

    time: float = 1000.0
    process: int = 1
    busy: Callable[[], bool] = lambda: False

    def now(self) -> float:
        return self.time

    def elapsed(self) -> float:
        return self.time

    def draw(self) -> int:
        return 0

    def pid(self) -> int:
        return self.process

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        if not condition.wait(0.02):
            self._pass(seconds)

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(0.02):
                await event.wait()
        except TimeoutError:
            self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        if seconds < float("inf") and not self.busy():
            self.time += seconds


CLAIMS_MAX = 4

Live = dict[str, tuple[object, float | None]]


@dataclass
class MemoryStore:
    """Seven methods over a WAL with batched fsyncs and a dead-task store, and `sync`."""

    clock: FakeClock
    pending_scope: str = "owned_all"
    durable: Live = field(default_factory=dict)
    log: list[tuple[str, tuple[object, float | None] | None]] = field(default_factory=list)
    owned: set[str] = field(default_factory=set)  # by the process that runs now
    dead: list[DeadTask] = field(default_factory=list)
    claims: Counter[str] = field(default_factory=Counter)  # since the last retry
    batch: int = 1000  # tasks in one claim
    ids: int = 0
    syncs: int = 0

    def live(self) -> Live:
        return self._after(len(self.log))

    def _after(self, length: int) -> Live:
        live = dict(self.durable)
        for task_id, value in self.log[:length]:
            if value is None:
                live.pop(task_id, None)
            else:
                live[task_id] = value
        return live

    def crash(self) -> None:
        """The process dies; a sweep gives what it owned back."""
        self.owned.clear()

    def host_crash(self, kept: int) -> None:
        """Some prefix of what was not synced stays."""
        self.durable, self.log = self._after(min(kept, len(self.log))), []
        self.crash()

    def _fence(self, task_id: str) -> None:
        if self.pending_scope == "due_unclaimed" and task_id not in self.owned:
            raise ClaimLost("somebody else owns it")

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if task_id is None:
            self.ids += 1
            task_id = f"id{self.ids}"
            if publish_at is None:
                self.owned.add(task_id)
        else:
            self._fence(task_id)
            self.owned.discard(task_id)
            del self.claims[task_id]
        self.log.append((task_id, (task, publish_at)))
        return task_id

    def remove_task(self, task_id: str) -> None:
        if task_id in self.live():
            self._fence(task_id)
            self.log.append((task_id, None))

    def pending_tasks(self) -> list[tuple[str, object, float | None]]:
        found: list[tuple[str, object, float | None]] = []
        for task_id, (task, publish_at) in self.live().items():
            if self.pending_scope == "due_unclaimed":
                is_due = (publish_at or 0) <= self.clock.now()
                if task_id in self.owned or not is_due or len(found) == self.batch:
                    continue
                self.claims[task_id] += 1
                if self.claims[task_id] > CLAIMS_MAX:  # in one transaction (Q7)
                    self.dead.append(DeadTask(task_id, "", 0, task, "Killer", "", 0.0))
                    self.durable.pop(task_id, None)
                    self.log.append((task_id, None))
                    continue
            self.owned.add(task_id)
            found.append((task_id, task, publish_at))
        return found

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        self._fence(task_id)
        name = type(exception).__name__
        self.dead.append(DeadTask(task_id, task_class, attempts, context, name, "", 0.0))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return self.dead[offset : None if limit is None else offset + limit]

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        return next((dead for dead in reversed(self.dead) if dead.task_id == task_id), None)

    def remove_dead_tasks(self, task_ids: list[str]) -> int:
        before = {dead.task_id for dead in self.dead}
        self.dead = [dead for dead in self.dead if dead.task_id not in task_ids]
        return len(before & set(task_ids))

    def sync(self) -> None:
        self.durable, self.log = self.live(), []
        self.syncs += 1


@dataclass
class Recorder:
    """A backend in front of another: notes every call, and fails those that it is told to."""

    inner: Any
    calls: list[str] = field(default_factory=list)
    faults: dict[str, list[Exception]] = field(default_factory=lambda: defaultdict(list))
    before: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        target = getattr(self.inner, name)
        if not callable(target) or name == "live":
            return target

        def call(*args: object) -> object:
            self.calls.append(name)
            if name in self.before:
                self.before[name]()
            if self.faults[name]:
                raise self.faults[name].pop(0)
            return target(*args)

        return call


class AsyncBackendOf:
    """The coroutines of a sync backend."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._inner, name)
        if not callable(target):
            return target

        async def call(*args: object) -> object:
            await asyncio.sleep(0)
            return target(*args)

        return call


@dataclass
class Rig:
    """A queue of either kind behind one sync face."""

    runner: asyncio.Runner | None
    queue: Any

    @classmethod
    def over(
        cls,
        runner: asyncio.Runner | None,
        backend: Any,
        registry: Registry,
        clock: FakeClock,
        **limits: Any,
    ) -> Rig:
        bounds, wrapped = Limits(**limits), cast(Any, AsyncBackendOf(backend))
        queue: Any
        if runner is None:
            queue = Queue(backend, bounds, registry=registry, clock=clock)
        else:
            queue = AioQueue(wrapped, bounds, registry=registry, clock=clock)
        clock.busy = lambda: bool(queue._core.running())
        return cls(runner, queue)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.queue, name)
        if self.runner is None or not asyncio.iscoroutinefunction(method):
            return method
        runner = self.runner

        def call(*args: object, **kwargs: object) -> object:
            return runner.run(method(*args, **kwargs))

        return call
