"""Who acts in a run: processes, their fibers, and the programs that make their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lychgate._op import Op
from lychgate._queue_core import Core

from lychgate_conformance.lab._calls import Call, Calls, calls_of
from lychgate_conformance.lab._oracle import Change, Oracle
from lychgate_conformance.lab._queue_steps import new_queue, queue_calls
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import DEAD_CLASS, Backend
from lychgate_conformance.lab._workload import QUEUE_KINDS, Step


class Worker:
    """One process and its backend."""

    def __init__(self, number: int, fs: SimFs, backend: Backend) -> None:
        self.number = number
        self.fs = fs
        self.backend = backend
        self.is_open = False
        self.alive = True
        self.history = 0
        self.owned: set[str] = set()
        """Tasks that it added itself since it opened the store."""
        self.shown: frozenset[str] = frozenset()
        """Tasks that its last `pending_tasks` gave."""
        self.opened = 0
        """When the oracle saw it open the store."""
        self.queue: Core | None = None
        """The memory of its queue, from the first step that needs one."""

    def calls_of(self, step: Step, serial: int) -> Calls:
        """The facade calls of a step."""
        if step.kind not in QUEUE_KINDS:
            return calls_of(step, serial)
        if self.queue is None:
            self.queue = new_queue(self.fs)
        return queue_calls(self.queue, step)


class Fiber:
    """One thread or asyncio task of a worker."""

    def __init__(self, worker: Worker, steps: list[tuple[Step | None, int]]) -> None:
        self.worker = worker
        self.steps = steps  # None: open the backend
        self.calls: Calls | None = None
        self.call: Call | None = None
        self.change: Change | None = None
        self.program: Any = None  # the coroutine of the call under way
        self.op: Op[Any] | None = None
        self.parked = False
        self.naps = 0  # sleeps since somebody gave something back
        self.turns = 0  # how often it went

    @property
    def done(self) -> bool:
        return not self.worker.alive or (self.calls is None and not self.steps)


def started(
    oracle: Oracle, worker: Worker, call: Call, owned: frozenset[str] | None
) -> tuple[Change, Any]:
    """The program that makes a call, and the change by which the oracle knows it.

    `owned` are the tasks that the worker surely owns, None for all.
    """
    backend: Any = worker.backend
    key = call.key
    if call.kind == "add":
        change = oracle.start_add((key, call.serial))
        args = call.args or (None, None, DEAD_CLASS, call.serial)
        return change, backend.add_dead_task(key, *args)
    if call.kind == "remove":
        return oracle.start_remove(key, call.handoff), backend.remove_dead_tasks([key])
    if call.kind == "task":
        beside = key in oracle.tasks and owned is not None and key not in owned
        change = oracle.start_task(key, call.serial, worker.number, beside)
        return change, backend.add_task(*(call.args or (call.serial, None)), key)
    if call.kind == "done":
        change = oracle.start_done(key, worker.number, call.handoff)
        return change, backend.remove_task(key)
    reads: dict[str, Callable[[], Any]] = {
        "list": lambda: backend.list_dead_tasks(),
        "find": lambda: backend.find_dead_task(key),
        "pending": lambda: backend.pending_tasks(),
        "sync": lambda: backend.sync(),
        "tick": lambda: backend.tick(worker.fs.now() + 1e6),
        "close": lambda: backend.close(),
        "open": lambda: backend.open(),
    }
    return oracle.start_read(), reads[call.kind]()
