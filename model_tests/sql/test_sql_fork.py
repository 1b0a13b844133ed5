"""A backend that is carried through a fork: parent and child are two workers (D23, Q8)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

import pytest
from sql.conftest import MakeSql
from sql.database import ask

from lychgate import Sql, SqlError

LATER = 3e9


def in_child(work: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> int:
    """Run `work` in a forked child, and `meanwhile` here as soon as it is forked; how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    meanwhile()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_parent_ends_first(url: str, make: MakeSql) -> None:
    """D23, Q8: what the child acknowledges is kept when its parent has closed the database.

    On SQLite the parent's last connection took the write-ahead log of both with it.
    """
    parent = make()
    parent.add_task("parent's", LATER, "before")
    is_open, is_closed = os.pipe(), os.pipe()

    def child() -> None:
        parent.add_task("child's", LATER, "first")
        os.write(is_open[1], b".")
        os.read(is_closed[0], 1)
        parent.add_task("child's", LATER, "second")

    def close() -> None:
        os.read(is_open[0], 1)
        parent.close()
        os.write(is_closed[1], b".")

    assert in_child(child, close) == 0
    for fd in (*is_open, *is_closed):
        os.close(fd)
    found = {row[0] for row in ask(url, "SELECT id FROM lychgate_tasks")}
    assert found == {"before", "first", "second"}


def test_a_fork_waits_for_transactions(sqlite_url: str) -> None:
    """D23, Q8: threads that write go on in the parent; the child begins with a whole database."""
    with Sql(sqlite_url) as worker:
        stop = threading.Event()
        added: list[str] = []

        def work(name: int) -> None:
            while not stop.is_set():
                added.append(worker.add_task(name, LATER))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(2)]
        for thread in threads:
            thread.start()
        for number in range(2):
            task_id = f"child-{number}"
            assert in_child(partial(worker.add_task, "c", LATER, task_id)) == 0
            added.append(task_id)
        stop.set()
        for thread in threads:
            thread.join()
    assert {row[0] for row in ask(sqlite_url, "SELECT id FROM lychgate_tasks")} == set(added)


def test_a_transaction_that_does_not_end(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """D23: a child that inherits one is told so; it could not trust the locks. The parent can."""
    monkeypatch.setattr("lychgate._sql_pool._FORK_WAIT_S", 0.01)
    with Sql(sqlite_url) as worker:
        connection, _ = worker._pool._take("test")

        def child() -> None:
            with pytest.raises(SqlError, match="was under way when this process was forked"):
                worker.add_task("lost")

        assert in_child(child) == 0
        worker._pool._give(connection, True)
        worker.add_task("kept", LATER)
    assert len(ask(sqlite_url, "SELECT id FROM lychgate_tasks")) == 1
