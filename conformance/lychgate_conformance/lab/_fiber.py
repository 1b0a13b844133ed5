"""Who acts in a run: processes, their fibers, and the facade calls that a step is made of."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from lychgate._op import Op

from lychgate_conformance.lab._oracle import Change
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import Backend
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


class View:
    """The facts that a backend sees: those of the process that is running it. After a fork two
    processes have the same backend, and what it keeps per process must be enough to part them."""

    def __init__(self, fs: SimFs) -> None:
        self.fs = fs

    def resolve(self, path: str) -> str:
        return self.fs.resolve(path)

    def now(self) -> float:
        return self.fs.now()

    def random(self, size: int) -> bytes:
        return self.fs.random(size)

    def pid(self) -> int:
        return self.fs.pid()

    def boot(self) -> str:
        return self.fs.boot()


class Worker:
    """One process and its backend."""

    def __init__(self, number: int, fs: SimFs, view: View, backend: Backend) -> None:
        self.number = number
        self.fs = fs
        self.view = view
        self.backend = backend
        self.is_open = False
        self.alive = True
        self.history = 0
        self.owned: set[str] = set()


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
        self.turns = 0  # how often it went

    @property
    def done(self) -> bool:
        return not self.worker.alive or (self.calls is None and not self.steps)


def opening() -> Calls:
    """The calls that a worker begins with."""
    yield Call("open")
