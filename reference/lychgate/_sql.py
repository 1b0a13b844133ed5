"""`Sql`: the facade of the seven methods over a database that several workers share (Q1).

    lychgate sql apply sqlite:///tasks.db              once, with a role that may make tables
    Sql("sqlite:///tasks.db")                          many times, with one that may not

An immediate task is its worker's own at once; a delayed one, and one that is retried, waits in the
table until some worker claims it: `pending_tasks` is the claim (Q4, Q11). Who the worker is, and
what it has in hand, is in `_sql_worker.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from lychgate._backend import Pending
from lychgate._errors import ClosedError, Refused
from lychgate._ids import TaskIds
from lychgate._osfs import OsFs
from lychgate._records import (
    JSON,
    Codec,
    DeadTask,
    Undecodable,
    check_codec,
    checked_time,
    decode_value,
    whole,
)
from lychgate._retention import Sweeps, check_period
from lychgate._sql_driver import Connection
from lychgate._sql_errors import SchemaError, SqlError
from lychgate._sql_options import Options, driver_of
from lychgate._sql_pool import Pool
from lychgate._sql_records import dead_row, dead_task, encoded, shown, stored_id
from lychgate._sql_schema import check, version_of
from lychgate._sql_split import SplitStatements
from lychgate._sql_store import Statements, Token
from lychgate._sql_worker import Worker
from lychgate._stats import Stats

R = TypeVar("R")


class Sql:
    """A durable task store in SQLite, PostgreSQL, or MariaDB and MySQL.

    url                 sqlite:///path, or with an extra of that name postgresql://… or mariadb://…
    batch_size          tasks in one claim
    claim_interval      seconds between claims of an idle queue
    heartbeat_interval  seconds between heartbeats, which `tick` sends, and a claim that is late
    stale_threshold     seconds without one after which a worker counts as dead
    claims_max          workers in a row that may vanish with a task, until it is a dead task
    pool_size           connections at most; threads wait for one another beyond
    codec               how tasks and contexts become bytes; JSON values by default
    dead_tasks_retention_period
                        seconds that a dead task is kept at least; None: for ever (D35)

    Threads and processes may share a database; each object is a worker of its own. What a call
    returned for is durable. Calls raise SqlError (its `definite` says whether the change may have
    happened), ClaimLost, Refused, SchemaError and ClosedError.
    """

    pending_scope = "due_unclaimed"

    def __init__(
        self,
        url: str,
        batch_size: int = 150,
        claim_interval: float = 5.0,
        heartbeat_interval: float = 30.0,
        stale_threshold: float = 90.0,
        claims_max: int = 5,
        pool_size: int = 8,
        *,
        codec: Codec = JSON,
        dead_tasks_retention_period: float | None = None,
    ) -> None:
        self._options = Options(
            batch_size, claim_interval, heartbeat_interval, stale_threshold, claims_max, pool_size
        )
        self.claim_interval = float(claim_interval)
        self._codec = check_codec(codec)
        period = check_period(dead_tasks_retention_period)
        self._sweeps = None if period is None else Sweeps(period)
        self._facts = OsFs()
        driver = driver_of(url, self._facts.resolve)
        self._pool = Pool(driver, pool_size, self._options.stale_threshold, self._facts.pid)
        statements = Statements if driver.words.returning else SplitStatements
        self._db = statements(driver.words, self._options.stale_threshold)
        self._ids = TaskIds(self._facts)
        self._stats = Stats()
        self._worker = self._new_worker()
        self._closed = False
        try:
            self._read("open", lambda db: check(driver, version_of(driver, db)))
            self._worker.register()
            self._worker.sweep()  # the first claim takes what dead workers left (Q10)
        except BaseException:
            self._pool.close()
            raise

    def _new_worker(self) -> Worker:
        return Worker(self._pool, self._db, self._options, self._facts, self._stats)

    # --- tasks --------------------------------------------------------------------------------

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        """Store a task, due at `publish_at` (seconds since the epoch) or at once; its id (Q4).

        With the id of a task that this worker holds it is the retry: replaced and given back.
        """
        worker = self._mine()
        due = checked_time(publish_at)
        task_id = self._ids.next() if task_id is None else task_id
        key = stored_id(task_id)
        codec, data = encoded(self._codec, task)

        def retry(db: Connection, token: Token) -> bool:
            return self._db.retry(db, key, token, data, codec, due)

        if not (worker.end(key, "retry", retry) or worker.add(key, codec, data, due)):
            raise worker.lost(key)
        return task_id

    def remove_task(self, task_id: str) -> None:
        """Forget a task. An unknown id is no error; ClaimLost when another worker has it."""
        worker = self._mine()
        key = stored_id(task_id)
        if worker.end(key, "finish", lambda db, token: self._db.finish(db, key, token)):
            return
        if self._pool.transact("remove_task", lambda db: self._db.take_unowned(db, key)) is None:
            raise worker.lost(key)

    def pending_tasks(self) -> list[Pending]:
        """Claim a batch of due tasks that nobody owns, oldest first (Q5, Q11).

        What cannot be decoded goes to the dead tasks, and so does what was claimed too often.
        """
        worker = self._mine()
        found: list[Pending] = []
        for row in worker.claim(self._codec):
            task = decode_value(self._codec, row.codec, row.data)
            if isinstance(task, Undecodable):
                worker.bury_unreadable(row)
            else:
                found.append((shown(row.key), task, row.publish_at))
        return found

    # --- dead tasks ---------------------------------------------------------------------------

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        """Store a dead task, and take its task out in the same transaction (Q7)."""
        worker = self._mine()
        key = stored_id(task_id)
        row = dead_row(self._codec, key, context, exception, task_class, attempts)
        is_buried = worker.end(key, "bury", lambda db, token: self._db.bury(db, row, token))
        if not is_buried and not self._pool.transact(
            "add_dead_task", lambda db: self._db.bury(db, row, None)
        ):
            raise worker.lost(key)
        if self._sweeps is not None:
            try:
                self._sweep(self._sweeps, self._facts.now())
            except (SqlError, SchemaError):
                self._stats.count("dead_sweeps_failed")  # the record is stored all the same

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        """A page of dead tasks, oldest first."""
        self._mine()
        wanted = None if limit is None else whole("limit", limit)
        skipped = whole("offset", offset)
        rows = self._read("list_dead_tasks", lambda db: self._db.dead(db, wanted, skipped))
        return [dead_task(self._codec, row) for row in rows]

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        """The newest dead task of this id."""
        self._mine()
        key = stored_id(task_id)
        rows = self._read("find_dead_task", lambda db: self._db.newest_dead(db, key))
        return dead_task(self._codec, rows[0]) if rows else None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        """Drop every record of these ids; how many ids were there."""
        self._mine()
        if isinstance(task_ids, str):
            raise Refused("task_ids is a collection of ids; put the one id into a list")
        keys = [stored_id(task_id) for task_id in task_ids]
        if not keys:
            return 0
        return self._pool.transact("remove_dead_tasks", lambda db: self._db.drop_dead(db, keys))

    # --- time, and the end --------------------------------------------------------------------

    def tick(self, now: float) -> float | None:
        """Heartbeat, sweep, and what a lost answer left to do; when to call again (Q6).

        Drops the dead tasks whose retention period is over (D35).
        """
        due = self._mine().keep_alive(now)
        if self._sweeps is None:
            return due
        self._sweep(self._sweeps, now)
        return min(due, self._sweeps.due_at)

    def _sweep(self, sweeps: Sweeps, now: float) -> None:
        """Ages are by the database's clock; the caller's only says when to look."""
        if not sweeps.begin(now):
            return
        period = sweeps.period
        count, age = self._pool.transact("expire", lambda db: self._db.expire(db, period))
        self._stats.count("dead_tasks_expired", count)
        sweeps.end(now, math.inf if age is None else now - age)

    def sync(self) -> None:
        """Nothing: what a call returned for is durable."""
        self._mine()

    def stats(self) -> dict[str, int]:
        """What was swept, lost, buried and counted (D33)."""
        return {**self._stats.snapshot(), "connections": self._pool.open_count}

    def close(self) -> None:
        """Give back what this worker owns, at once and uncounted, and leave; safe to repeat."""
        if self._closed:
            return
        is_child = self._pool.forked()  # its parent's tasks are its parent's
        self._closed = True
        try:
            if not is_child:
                self._worker.stop()
        finally:
            self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _mine(self) -> Worker:
        """This process's worker. After a fork the child is another one, with empty hands."""
        if self._closed:
            raise ClosedError("this backend was closed; open a new one")
        if self._pool.forked():
            self._worker = self._new_worker()
        return self._worker

    def _read(self, step: str, work: Callable[[Connection], R]) -> R:
        return self._pool.transact(step, work, write=False)
