"""What the SQL tests do behind a backend's back: look into the tables, and move time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lychgate import Sql
from lychgate._sql_driver import Connection, Failure
from lychgate._sql_options import driver_of


ENDS: dict[str, Callable[[Sql, str], object]] = {
    "finish": lambda worker, task_id: worker.remove_task(task_id),
    "retry": lambda worker, task_id: worker.add_task("again", 9.0, task_id),
    "bury": lambda worker, task_id: worker.add_dead_task(task_id, "dead", None, "c", 1),
}
"""The three ends of a task in hand."""


def ask(url: str, statement: str, **values: object) -> list[tuple[Any, ...]]:
    """The rows of a statement, in a transaction of its own."""
    connection = driver_of(url, str).connect()
    try:
        connection.begin(True)
        rows = connection.rows(statement, values)
        connection.commit()
        return rows
    finally:
        connection.close()


def do(url: str, statement: str, **values: object) -> None:
    """Run a statement for its effect."""
    driver = driver_of(url, str)
    connection = driver.connect()
    try:
        connection.begin(True)
        connection.change(driver.words.spelled(statement), values)
        connection.commit()
    finally:
        connection.close()


def make_stale(url: str, worker: Sql, seconds: float = 3600.0) -> None:
    """This worker's last heartbeat was long ago."""
    do(
        url,
        "UPDATE lychgate_workers SET heartbeat_at = heartbeat_at - :s WHERE id = :me",
        s=seconds,
        me=worker._worker.name,
    )


def sweep(worker: Sql) -> None:
    """What this worker does when a heartbeat is due."""
    worker._worker.keep_alive(time.time(), at_once=True)


def rows(url: str) -> dict[str, tuple[str | None, int]]:
    """Owner and claim count of every task."""
    found = ask(url, "SELECT id, owner_id, claim_count FROM lychgate_tasks")
    return {row[0]: (row[1], row[2]) for row in found}


class LosesAnswers:
    """A connection that breaks at one COMMIT: before it reaches the database, or after."""

    def __init__(self, inner: Connection, after: bool) -> None:
        self._inner = inner
        self._after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self) -> None:
        if self._after:
            self._inner.commit()
        self._inner.close()
        raise LostAnswer


class LostAnswer(Exception):
    """The connection is gone, and with it the answer."""


def lose_next_answer(worker: Sql, after: bool) -> None:
    """The next transaction's connection breaks at its commit."""
    pool = worker._pool
    driver: Any = pool.driver
    pool._idle = [LosesAnswers(connection, after) for connection in pool._idle[-1:]]
    assert pool._idle, "a connection was used before"
    known = driver.failure

    def failure(error: Exception) -> object:
        if isinstance(error, LostAnswer):
            return Failure("test", "the connection broke", "call again", lost=True)
        return known(error)

    driver.failure = failure


def make_stale_all(url: str) -> None:
    """Every worker that is listed was last heard of long ago."""
    do(url, "UPDATE lychgate_workers SET heartbeat_at = heartbeat_at - 3600.0")
