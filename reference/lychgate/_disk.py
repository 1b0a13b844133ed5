"""`Disk`: the facade of the seven methods over a WAL and a dead-task store (D2, D3).

`DiskPrograms` is the backend as programs; `Disk` drives them in the calling thread, `aio.Disk`
under asyncio, the crash lab on a simulated disk. A backend schedules nothing and owns no timer
(D1): what needs time is done by `tick`, by the next call that is past due, and by `close`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import PurePath
from types import TracebackType
from typing import Self, TypeVar

from lychgate._dead import DeadStore
from lychgate._directory import make_directory
from lychgate._drive import Observer, run
from lychgate._errors import (
    ClosedError,
    ConfigError,
    DeadTasksLockTimeout,
    Refused,
    StorageError,
)
from lychgate._fs import Facts
from lychgate._ids import TaskIds
from lychgate._lines import is_valid
from lychgate._names import check_prefix
from lychgate._op import Program, StepError, with_release
from lychgate._osfs import OsFs
from lychgate._page import Page
from lychgate._records import (
    JSON,
    Codec,
    DeadTask,
    WalAdd,
    as_number,
    check_codec,
    check_id,
    dead_line,
    decode_payload,
    describe_error,
    enqueued_at as when_enqueued,
    failed_at,
    id_text,
    parse_dead,
    parse_wal,
    record_id,
    wal_add_line,
    whole,
)
from lychgate._retention import Sweeps, check_period
from lychgate._stats import Stats
from lychgate._wal import Wal

R = TypeVar("R")

PATH = "storage"
PREFIX = "deferred-"
FSYNC_FREQUENCY_S = 0.5

PendingTask = tuple[str, object, float | None]
"""Task id, task (or `Undecodable`), and when it is to run (seconds since the epoch) or None."""


class DiskPrograms:
    """The disk backend as programs over ops; every method but `__init__` and `stats` is one."""

    def __init__(
        self,
        path: str | PurePath,
        prefix: str,
        fsync_frequency: float,
        codec: Codec,
        facts: Facts,
        dead_tasks_retention_period: float | None = None,
    ) -> None:
        self._directory = facts.resolve(_check_path(path))  # once: chdir does not move it (W14)
        prefix = check_prefix(prefix)
        self._codec = check_codec(codec)
        self._facts = facts
        self._stats = Stats()
        self._ids = TaskIds(facts)
        self._wal = Wal(
            self._directory,
            prefix,
            _check_frequency(fsync_frequency),
            facts,
            self._ids,
            self._stats,
        )
        self._dead = DeadStore(self._directory, prefix, facts, self._stats)
        period = check_period(dead_tasks_retention_period)
        self._sweeps = None if period is None else Sweeps(period)
        self._closed = False

    async def open(self) -> None:
        """Make the directory and the dead-task store, and take over what dead processes left."""
        try:
            await make_directory(self._directory)
        except StepError as error:
            raise StorageError(error.action, error.cause, self._directory, True) from error.cause
        try:
            await self._dead.prepare()
        except DeadTasksLockTimeout:
            pass  # whoever holds the lock prepares the store; each change looks again (D9)
        await self._wal.start()

    async def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        self._check_open()
        key = self._ids.next() if task_id is None else check_id(task_id)
        await self._wal.add(key, wal_add_line(self._codec, key, task, publish_at))
        return key

    async def remove_task(self, task_id: str) -> None:
        self._check_open()
        await self._wal.remove(check_id(task_id))

    async def pending_tasks(self) -> list[PendingTask]:
        self._check_open()
        found: list[PendingTask] = []

        def visit(line: bytes) -> None:
            record = parse_wal(line[9:-1]) if is_valid(line[:-1]) else None
            if isinstance(record, WalAdd):
                task = decode_payload(self._codec, record.payload)
                found.append((record.task_id, task, record.publish_at))
            else:
                self._stats.count("wal_lines_skipped")

        await self._wal.pending(visit)
        return found

    async def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        self._check_open()
        error_class, error_message = describe_error(exception)
        dead = DeadTask(
            task_id=check_id(task_id),
            task_class=str(task_class),
            attempts=whole("attempts", attempts),
            context=context,
            error_class=error_class,
            error_message=error_message,
            failed_at=self._facts.now(),
            enqueued_at=when_enqueued(context),
        )
        await self._dead.add(dead_line(self._codec, dead))
        if self._sweeps is not None:
            try:
                await self._sweep(self._sweeps, dead.failed_at)
            except StorageError:
                self._stats.count("dead_sweeps_failed")  # the add is durable all the same

    async def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        self._check_open()
        wanted = None if limit is None else whole("limit", limit)
        page = Page[DeadTask](wanted, whole("offset", offset))

        def visit(body: bytes) -> bool:
            if record_id(body) is None:
                self._stats.count("dead_lines_skipped")
            elif not page.skips():
                if (dead := parse_dead(self._codec, body)) is None:
                    self._stats.count("dead_lines_skipped")
                else:
                    page.items.append(dead)
            return not page.full

        if not page.full:
            await self._dead.scan(visit)
        return page.items

    async def find_dead_task(self, task_id: str) -> DeadTask | None:
        self._check_open()
        key = id_text(check_id(task_id))
        newest: DeadTask | None = None

        def visit(body: bytes) -> bool:
            nonlocal newest
            if record_id(body) == key:
                newest = parse_dead(self._codec, body) or newest
            return True

        await self._dead.scan(visit)
        return newest

    async def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        self._check_open()
        if isinstance(task_ids, str):
            raise Refused("task_ids is a collection of ids; put the one id into a list")
        return await self._dead.remove(frozenset(id_text(check_id(key)) for key in task_ids))

    async def tick(self, now: float) -> float | None:
        self._check_open()
        due = await self._wal.tick(now)
        if self._sweeps is None:
            return due
        await self._sweep(self._sweeps, now)
        return self._sweeps.due_at if due is None else min(due, self._sweeps.due_at)

    async def _sweep(self, sweeps: Sweeps, now: float) -> None:
        """Drop the dead tasks whose time is over, if it is time to look (D35).

        Both the caller's clock and this system's, which dated them, must say that it is over.
        """
        if not sweeps.begin(now):
            return
        end = min(now, self._facts.now()) - sweeps.period
        oldest = math.inf
        is_late = False

        def visit(body: bytes) -> bool:
            nonlocal oldest, is_late
            died = failed_at(body)
            if died is not None and died <= end:
                is_late = True
            elif died is not None:
                oldest = min(oldest, died)
            return True

        def chosen(body: bytes) -> bool:
            died = failed_at(body)
            return died is not None and died <= end

        try:
            await self._dead.scan(visit)
            if is_late:
                self._stats.count("dead_tasks_expired", await self._dead.drop(chosen))
        except DeadTasksLockTimeout:
            self._stats.count("dead_sweeps_failed")  # the next sweep has them
            return
        sweeps.end(now, oldest)

    async def sync(self) -> None:
        self._check_open()
        await self._wal.sync()

    def stats(self) -> dict[str, int]:
        return self._stats.snapshot()

    async def close(self) -> None:
        self._closed = True
        await with_release(self._wal.close(), self._dead.close)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this backend was closed; open a new one")


class Disk:
    """A durable task store in a directory.

    path             the directory; made if missing
    prefix           the start of every file name; backends with different prefixes may share a path
    fsync_frequency  seconds between fsyncs of the WAL; 0 makes every call durable before it returns
    codec            how tasks and contexts become bytes; JSON values by default
    dead_tasks_retention_period
                     seconds that a dead task is kept at least; None: for ever (D35)

    Threads, several objects and several processes may use one path and prefix at once. A crash of
    the process loses nothing that a call returned for; a crash of the host may lose the WAL changes
    of the last `fsync_frequency` seconds, and never a dead task (W3, D17).
    """

    def __init__(
        self,
        path: str | PurePath = PATH,
        prefix: str = PREFIX,
        fsync_frequency: float = FSYNC_FREQUENCY_S,
        *,
        codec: Codec = JSON,
        dead_tasks_retention_period: float | None = None,
        observe: Observer | None = None,
    ) -> None:
        self._fs = OsFs()
        self._observe = observe
        self._programs = DiskPrograms(
            path, prefix, fsync_frequency, codec, self._fs, dead_tasks_retention_period
        )
        try:
            self._run(self._programs.open())
        except BaseException:
            self._fs.close_all()  # with the descriptors go the locks
            raise

    def _run(self, program: Program[R]) -> R:
        return run(program, self._fs, self._observe)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        """Store a task, to run at `publish_at` or at once; its id. A known id is replaced (U2).

        Raises Refused (nothing written) and StorageError.
        """
        return self._run(self._programs.add_task(task, publish_at, task_id))

    def remove_task(self, task_id: str) -> None:
        """Forget a task; an unknown id changes nothing (W10). Raises StorageError."""
        self._run(self._programs.remove_task(task_id))

    def pending_tasks(self) -> list[PendingTask]:
        """Every live task of the files that this process owns (W7). Raises StorageError."""
        return self._run(self._programs.pending_tasks())

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        """Store a dead task; it is durable when this returns (D17).

        `exception` is kept as class name and text, `context` as a value of the codec. Raises
        Refused, DeadTasksLockTimeout (both: nothing written) and StorageError.
        """
        self._run(
            self._programs.add_dead_task(task_id, context, exception, task_class, attempts)
        )

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        """A page of dead tasks in file order (D16).

        Every one whose add has answered is there; others may be (D34). Raises DeadTasksLockTimeout
        and StorageError.
        """
        return self._run(self._programs.list_dead_tasks(limit, offset))

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        """The newest dead task of this id (D26). Raises DeadTasksLockTimeout, StorageError."""
        return self._run(self._programs.find_dead_task(task_id))

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        """Drop every record of these ids; how many ids were there (D12).

        Durable when this returns. Raises DeadTasksLockTimeout (nothing changed) and StorageError.
        """
        return self._run(self._programs.remove_dead_tasks(task_ids))

    def tick(self, now: float) -> float | None:
        """fsync the WAL if it is due at `now`, drop dead tasks whose retention period is over; when
        to call again, None if nothing waits (D1). Raises StorageError."""
        return self._run(self._programs.tick(now))

    def sync(self) -> None:
        """Make everything acknowledged so far durable. Raises StorageError."""
        self._run(self._programs.sync())

    def stats(self) -> dict[str, int]:
        """What was skipped, repaired, truncated, dropped and counted (D33)."""
        return self._programs.stats()

    def close(self) -> None:
        """Make everything durable and give the files back; safe to repeat."""
        self._run(self._programs.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check_path(path: str | PurePath) -> str:
    text = str(path) if isinstance(path, (str, PurePath)) else ""
    if not text or "\0" in text:
        raise ConfigError("path must name a directory (a non-empty string or a pathlib path)")
    return text


def _check_frequency(seconds: float) -> float:
    number = as_number(seconds)
    if number is None:
        raise ConfigError("fsync_frequency must be a number of seconds")
    if not (math.isfinite(number) and number >= 0):
        raise ConfigError("fsync_frequency must be finite and not negative")
    return number
