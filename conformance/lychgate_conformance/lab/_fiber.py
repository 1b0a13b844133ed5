"""Who acts in a run: processes, their fibers, and the facade calls that a step is made of."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from lychgate._op import Op

from lychgate_conformance.lab._oracle import Change, Oracle
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import DEAD_CLASS, Backend
from lychgate_conformance.lab._workload import Step


class Violation(Exception):
    """The target broke a promise. `kind` names it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kind = text.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the facade."""

    kind: str
    key: str = ""
    serial: int = 0
    handoff: bool = False


Calls = Generator[Call, object, None]


def calls_of(step: Step, serial: int) -> Calls:
    """The facade calls of a step; a call that fails ends the step."""
    if step.kind == "giveup":
        yield Call("add", step.key, serial)
        yield Call("done", step.key, handoff=True)
    elif step.kind == "retry":
        if (yield Call("find", step.key)) is not None:
            yield Call("task", f"{step.key}-again", serial)
            yield Call("sync")
            yield Call("remove", step.key, handoff=True)
    elif step.kind == "reopen":
        yield Call("close")
        yield Call("open")
    else:
        yield Call(step.kind, step.key, serial)


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


def opening() -> Calls:
    """The calls that a worker begins with."""
    yield Call("open")


def started(
    oracle: Oracle, worker: Worker, call: Call, owned: frozenset[str] | None
) -> tuple[Change, Any]:
    """The program that makes a call, and the change by which the oracle knows it.

    `owned` are the tasks that the worker surely owns, None for all.
    """
    backend, key = worker.backend, call.key
    if call.kind == "add":
        change = oracle.start_add((key, call.serial))
        return change, backend.add_dead_task(key, None, None, DEAD_CLASS, call.serial)
    if call.kind == "remove":
        return oracle.start_remove(key, call.handoff), backend.remove_dead_tasks([key])
    if call.kind == "task":
        beside = key in oracle.tasks and owned is not None and key not in owned
        change = oracle.start_task(key, call.serial, worker.number, beside)
        return change, backend.add_task(call.serial, None, key)
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
