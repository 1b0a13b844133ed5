"""Facade calls as values: what a step of a workload is made of."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from lychgate._errors import LychgateError

from lychgate_conformance.lab._workload import Step


class Violation(Exception):
    """The target broke a promise. `kind` names it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kind = text.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the facade. `args` are those that a queue gives, in the place of our own."""

    kind: str
    key: str = ""
    serial: int = 0
    handoff: bool = False
    args: tuple[object, ...] = ()


Calls = Generator[Call, object, None]
"""Yields calls, is sent their results or thrown their errors."""


def calls_of(step: Step, serial: int) -> Calls:
    """The facade calls of a plain step; a call that fails ends the step."""
    if step.kind == "giveup":
        yield Call("add", step.key, serial)
        yield Call("done", step.key, handoff=True)
    elif step.kind == "retry":
        if (yield Call("find", step.key)) is not None:
            yield Call("task", f"{step.key}-again", serial)
            yield Call("sync")
            yield Call("remove", step.key, handoff=True)
    elif step.kind == "reopen":
        try:
            yield Call("close")
        except LychgateError:
            pass  # closed all the same
        yield Call("open")
    else:
        yield Call(step.kind, step.key, serial)


def opening() -> Calls:
    """The calls that a worker begins with."""
    yield Call("open")
