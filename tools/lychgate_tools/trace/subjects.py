"""What is recorded on real files: one store, and callers who use it.

A subject says which spec its traces are of, how to look at its files and what its callers do: of
the dead tasks, of the tasks (the WAL), of the delivery queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from unittest import mock

from lychgate import _lock, _wal
from lychgate._disk import DiskPrograms
from lychgate._fs import Fs
from lychgate._op import Program
from lychgate._records import JSON

from lychgate_tools.trace import delivery_calls
from lychgate_tools.trace.dead_eyes import DeadEyes, cells_of_lines, reader_of
from lychgate_tools.trace.delivery_eyes import DeliveryEyes
from lychgate_tools.trace.recorder import Eyes
from lychgate_tools.trace.wal_eyes import Names, WalEyes, directory_of

PREFIX = "p-"
TRIES = 40
SLEEP_S = 0.0005
ROTATE_BYTES = 400


class Caller(Protocol):
    """One fiber's or process's choice of calls."""

    def next(self) -> tuple[str, str]:
        """A call and its record."""

    def ended(self, op: str, record: str, outcome: str) -> None:
        """How it went."""


@dataclass(frozen=True)
class Subject:
    """One store, for recording."""

    module: str
    constants: Mapping[str, Any]
    first: str  # the call that a process begins with
    last: str  # and ends with, if any
    restarts: bool  # whether the spec has a step for a process that begins
    caller: Callable[[Random, str], Caller]
    eyes: Callable[[str, Callable[[], str], Names], Eyes]
    programs: Callable[[str, Fs], Any]  # the object in a directory whose programs are run
    program: Callable[[Any, str, str], Program[Any]]
    spared: frozenset[str]  # events after which no process is killed


def settings() -> AbstractContextManager[object]:
    """The engine with numbers that make a short run tell much."""
    stack = ExitStack()
    stack.enter_context(mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", TRIES))
    stack.enter_context(mock.patch.object(_lock, "LOCK_SLEEP_S", SLEEP_S))
    stack.enter_context(mock.patch.object(_wal, "ROTATE_BYTES", ROTATE_BYTES))
    return stack


# --- dead tasks -------------------------------------------------------------------------------


class DeadCaller:
    """Adds, removes and lists a handful of records."""

    def __init__(self, chance: Random, name: str) -> None:
        self._chance = chance

    def next(self) -> tuple[str, str]:
        op = self._chance.choice(("add", "add", "remove", "list"))
        return op, f"r{self._chance.randrange(8)}" if op != "list" else ""

    def ended(self, op: str, record: str, outcome: str) -> None:
        pass


def _dead_program(programs: DiskPrograms, op: str, record: str) -> Program[Any]:
    if op == "add":
        return programs.add_dead_task(record, {"n": record}, ValueError("no"), "Task", 3)
    if op == "remove":
        return programs.remove_dead_tasks([record])
    if op == "list":
        return programs.list_dead_tasks()
    assert op == "prepare", op
    return programs._dead.prepare()


def _dead_eyes(directory: str, boot: Callable[[], str], names: Names) -> Eyes:
    return DeadEyes(reader_of(directory, PREFIX), cells_of_lines, boot)


# --- the WAL ----------------------------------------------------------------------------------


class WalCaller:
    """Adds tasks, removes those that it has, syncs now and then."""

    def __init__(self, chance: Random, name: str) -> None:
        self._chance = chance
        self._name = f"{name}n{chance.randrange(1 << 20)}n"
        self._added = 0
        self._live: list[str] = []

    def next(self) -> tuple[str, str]:
        op = self._chance.choice(("add", "add", "remove", "sync"))
        if op == "remove" and self._live:
            return op, self._live.pop(self._chance.randrange(len(self._live)))
        if op == "sync":
            return op, ""
        self._added += 1
        return "add", f"{self._name}{self._added}"

    def ended(self, op: str, record: str, outcome: str) -> None:
        if op == "add" and outcome == "ok":
            self._live.append(record)


def _wal_program(programs: DiskPrograms, op: str, record: str) -> Program[Any]:
    if op == "add":
        return programs.add_task(None, task_id=record)
    if op == "remove":
        return programs.remove_task(record)
    if op == "sync":
        return programs.sync()
    return {"start": programs._wal.start, "close": programs._wal.close}[op]()


def _wal_eyes(directory: str, boot: Callable[[], str], names: Names) -> Eyes:
    return WalEyes(directory_of(directory), PREFIX, names)


_OUTSIDE = frozenset(("Call", "Return"))


def _disk(directory: str, fs: Fs) -> DiskPrograms:
    return DiskPrograms(directory, PREFIX, 0, JSON, fs)


SUBJECTS = {
    "dead": Subject(
        "DeadTasks",
        {"MaxTries": TRIES, "CrashModel": False},
        "prepare",
        "",
        True,
        DeadCaller,
        _dead_eyes,
        _disk,
        _dead_program,
        _OUTSIDE,
    ),
    "wal": Subject(
        "Wal",
        {"Eager": True},
        "start",
        "close",
        False,
        WalCaller,
        _wal_eyes,
        _disk,
        _wal_program,
        _OUTSIDE | {"ReadWal", "CopyWal", "CloseWal"},
    ),
    "delivery": Subject(
        "Delivery",
        delivery_calls.CONSTANTS,
        "open",
        "close",
        False,
        delivery_calls.DeliveryCaller,
        lambda directory, boot, names: DeliveryEyes(directory_of(directory), boot),
        delivery_calls.new_queue,
        delivery_calls.program,
        _OUTSIDE | {"ClearMark"},
    ),
}
"""Who is spared: whoever is outside of calls, where the spec of dead tasks has no kill; before a
first step, where the specs of the WAL and of the queue have nobody yet, and after the last, where
they have nobody any more; and between the pieces of one step of the spec (`wal_pieces`)."""
