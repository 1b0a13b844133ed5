"""The system that a run drives: the engine's programs, or anything with the same seven methods.

A target makes a backend, given the facts of the process that runs it. Its methods are programs
over ops (`lychgate._op`), so that a run can stop between any two steps. Mutants of the engine are
targets too.

The constants that a run needs small (attempts on a lock, the size at which a WAL is rotated) are
set while `constants` is entered and put back afterwards.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lychgate import _lock, _wal
from lychgate._disk import DiskPrograms
from lychgate._fs import Facts
from lychgate._op import Program
from lychgate._records import JSON, DeadTask

PATH = "/s"
PREFIX = "p-"
ROTATE_NEVER = 1 << 40
ATTEMPTS = 3


class Backend(Protocol):
    """The facade as programs."""

    def open(self) -> Program[None]: ...

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> Program[str]: ...

    def remove_task(self, task_id: str) -> Program[None]: ...

    def pending_tasks(self) -> Program[list[tuple[str, object, float | None]]]: ...

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> Program[None]: ...

    def list_dead_tasks(
        self, limit: int | None = None, offset: int = 0
    ) -> Program[list[DeadTask]]: ...

    def find_dead_task(self, task_id: str) -> Program[DeadTask | None]: ...

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> Program[int]: ...

    def tick(self, now: float) -> Program[float | None]: ...

    def sync(self) -> Program[None]: ...

    def close(self) -> Program[None]: ...


class Target:
    """The engine as it is. Subclasses change what `make` gives."""

    name = "engine"
    closes_at_fork = True
    """Whether a child drops its parent's descriptors, as the hook of the real port does (D23)."""

    def __init__(self, lock_attempts: int = ATTEMPTS, rotate_bytes: int = ROTATE_NEVER) -> None:
        self.lock_attempts = lock_attempts
        self.rotate_bytes = rotate_bytes

    def make(self, facts: Facts, frequency: float) -> Backend:
        """A backend for one process, not opened yet."""
        return DiskPrograms(PATH, PREFIX, frequency, JSON, facts)

    @contextmanager
    def constants(self) -> Iterator[None]:
        """Small limits, and a silent queue, for as long as a run lasts."""
        log = logging.getLogger("lychgate.queue")
        before = _lock.LOCK_ATTEMPTS_MAX, _wal.ROTATE_BYTES
        was_silent, log.disabled = log.disabled, True
        _lock.LOCK_ATTEMPTS_MAX, _wal.ROTATE_BYTES = self.lock_attempts, self.rotate_bytes
        try:
            yield
        finally:
            _lock.LOCK_ATTEMPTS_MAX, _wal.ROTATE_BYTES = before
            log.disabled = was_silent


DEAD_CLASS = "T"

CLOCK = 1_700_000_000.0
"""When every run begins."""


def dead_record(dead: DeadTask) -> tuple[str, int]:
    """(id, serial) of a record that is exactly what a run wrote; serial -1 for any other."""
    failed_at = min(max(dead.failed_at, CLOCK), CLOCK + 100.0)
    expected = DeadTask(dead.task_id, DEAD_CLASS, dead.attempts, None, "", "", failed_at, None)
    if dead == expected:
        return dead.task_id, dead.attempts
    if dead.context is None:
        return dead.task_id, -1
    return dead.task_id, serial_of([dead.context, dead.task_class, dead.attempts])


def task_record(pending: tuple[str, object, float | None]) -> tuple[str, int]:
    """(id, serial) of a live task; serial -1 for one that no run wrote."""
    key, task, publish_at = pending
    if type(task) is int:
        return key, task if publish_at is None else -1
    return key, serial_of(task)


def serial_of(value: object) -> int:
    """What the oracle tells values by: a number is its own serial; a job, or what is left of one,
    has a digest; -1 for what cannot be a value of a run."""
    if type(value) is int:
        return value
    try:
        text = json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return -1
    return _SERIALS + zlib.crc32(text.encode("ascii"))


_SERIALS = 10**9
"""Above every number of a step."""
