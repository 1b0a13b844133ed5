"""From the driver's observer to events: one recorder per trace.

A recorder is told of every step by an `Observer` (reference/lychgate/_drive.py), of calls and
returns by whoever makes them, and of kills, restarts and crashes by whoever causes them. It looks
at the files after each of them. The order of its events is the order of the steps: whoever records
several fibers or processes must make sure of that, and each source says how it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._drive import Observer
from lychgate._op import Op

from lychgate_tools.trace.format import Seen


@dataclass(frozen=True)
class Described:
    """A step as an event shows it."""

    args: Mapping[str, Any]
    result: Any = None
    error: str = ""


class Eyes(Protocol):
    """What an observer sees of one protocol."""

    def seen(self) -> Seen:
        """All that can be seen now."""

    def describe(
        self, worker: str, op: Op[Any], result: object, error: BaseException | None
    ) -> Described | None:
        """A step as the event shows it; None for a step of another protocol."""


class Sink(Protocol):
    """Where events go: a `Writer`, or a pipe to the process that has one."""

    def event(
        self,
        action: str,
        worker: str,
        fiber: str,
        args: Mapping[str, Any],
        result: Any,
        error: str,
        seen: Seen,
    ) -> None:
        """One event, with all that can be seen after it."""


class Recorder:
    """Makes the events of one trace."""

    def __init__(self, sink: Sink, eyes: Eyes) -> None:
        self._sink = sink
        self._eyes = eyes
        self.steps = 0

    def observer(self, worker: str, fiber: str) -> Observer:
        """What a driver calls after each step of this fiber."""

        def observe(op: Op[Any], result: object, error: BaseException | None) -> None:
            described = self._eyes.describe(worker, op, result, error)
            if described is not None:
                self.steps += 1
                self._event(op.action, worker, fiber, described)

        return observe

    def call(self, worker: str, fiber: str, op: str, record: str) -> None:
        self._event("Call", worker, fiber, Described({"op": op, "record": record}))

    def returned(self, worker: str, fiber: str, op: str, record: str, outcome: str) -> None:
        """`outcome` is `ok`, `error` or `timeout`."""
        described = Described({"op": op, "record": record}, outcome)
        self._event("Return", worker, fiber, described)

    def world(
        self,
        action: str,
        worker: str = "",
        fiber: str = "",
        args: Mapping[str, Any] | None = None,
    ) -> None:
        """Something that no program did: Restart, Kill, HostCrash, …"""
        self._event(action, worker, fiber, Described(args or {}))

    def _event(self, action: str, worker: str, fiber: str, described: Described) -> None:
        self._sink.event(
            action,
            worker,
            fiber,
            described.args,
            described.result,
            described.error,
            self._eyes.seen(),
        )


def outcome_of(error: BaseException | None) -> str:
    """How a call ended, for its Return. Anything but these errors is a defect, and goes on."""
    if error is None:
        return "ok"
    if isinstance(error, DeadTasksLockTimeout):
        return "timeout"
    if isinstance(error, StorageError):
        return "error"
    raise error
