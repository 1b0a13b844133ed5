"""Stores to try `lychgate dead` on: a directory and a SQLite database, filled the same way."""

from __future__ import annotations

from contextlib import contextmanager
from collections.abc import Iterator
from pathlib import Path

from lychgate import Disk, Sql
from lychgate_tools.cli import main
from lychgate_tools.dead.database import SqlStore
from lychgate_tools.dead.disk import DiskStore
from lychgate_tools.dead.records import Store

KINDS = ("disk", "sqlite")


def make(kind: str, directory: Path, name: str = "s") -> str:
    """An empty store; what the command line calls it."""
    if kind == "disk":
        Disk(directory / name).close()
        return str(directory / name)
    url = f"sqlite:///{directory / name}.db"
    assert main(["sql", "apply", url]) == 0
    return url


def backend(target: str) -> Disk | Sql:
    """The store as a worker has it."""
    return Sql(target) if "://" in target else Disk(target, fsync_frequency=0)


@contextmanager
def opened(target: str) -> Iterator[Store]:
    """The store as the command has it."""
    store: Store = SqlStore(target) if "://" in target else DiskStore(target, "deferred-")
    try:
        yield store
    finally:
        store.close()


def job(name: str = "shop.send", *args: object) -> dict[str, object]:
    """What a queue stores of a task."""
    return {
        "task": name, "args": list(args), "kwargs": {}, "enqueued_at": 1.5, "attempts": 3,
        "crashes": 0, "running": False, "retry_of": None,
    }  # fmt: skip


def bury(target: str, *task_ids: str, error: object = "no", name: str = "shop.send") -> None:
    """Add dead tasks, as a worker does."""
    with backend(target) as worker:
        for task_id in task_ids:
            worker.add_dead_task(task_id, job(name, task_id), error, name, 3)


def dead_ids(target: str) -> list[str]:
    with backend(target) as worker:
        return [dead.task_id for dead in worker.list_dead_tasks()]
