"""A store in sixty lines on SQLite, one connection, one statement a call: durable by its settings.

`python_adapter.py lychgate_conformance.adapters.sqlite_store:Wal` makes an adapter of it. With a
rollback journal, `synchronous = FULL` is not enough: the deletion of the journal, which is the
commit, is not made durable, and a power failure may roll an answered call back. `EXTRA` is.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

_TABLES = """
CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, task TEXT NOT NULL, publish_at REAL);
CREATE TABLE IF NOT EXISTS dead (place INTEGER PRIMARY KEY, id TEXT NOT NULL, record TEXT NOT NULL);
"""


class Rollback:
    """A rollback journal."""

    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = DELETE", "synchronous = EXTRA")
    claims: ClassVar[Mapping[str, object]] = {
        "pending_scope": "all", "fsync_policy": "always", "survives_host_crash": True,
        "uses_path": True, "multi_thread": False, "fork_safe": False, "any_text": False,
    }  # fmt: skip

    def __init__(self, path: str, prefix: str, fsync_frequency: float = 0.0) -> None:
        directory = Path(path).absolute()
        for parent in reversed([it for it in (directory, *directory.parents) if not it.exists()]):
            parent.mkdir(exist_ok=True)
            fd = os.open(parent.parent, os.O_RDONLY)
            os.fsync(fd)  # SQLite makes its files' names durable, not those of directories
            os.close(fd)
        self.db = sqlite3.connect(directory / f"{prefix}db", timeout=30.0, isolation_level=None)
        for pragma in self.pragmas:
            self.db.execute(f"PRAGMA {pragma}")
        for statement in _TABLES.strip().split("\n"):
            self.db.execute(statement)

    def add_task(
        self, task: Any, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = secrets.token_hex(12) if task_id is None else task_id
        row = (new, json.dumps(task), publish_at)
        self.db.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", row)
        return new

    def remove_task(self, task_id: str) -> None:
        self.db.execute("DELETE FROM tasks WHERE id = ?", (task_id,))

    def pending_tasks(self) -> list[tuple[str, Any, float | None]]:
        rows = self.db.execute("SELECT * FROM tasks").fetchall()
        return [(key, json.loads(task), publish_at) for key, task, publish_at in rows]

    def add_dead_task(
        self, task_id: str, context: Any, exception: object, task_class: str, attempts: int
    ) -> None:
        names = ("task_id", "task_class", "attempts", "context", "error_class", "error_message")
        values = (task_id, task_class, attempts, context, type(exception).__name__, str(exception))
        times = {"failed_at": time.time(), "enqueued_at": None}
        record = json.dumps(dict(zip(names, values, strict=True)) | times)
        self.db.execute("INSERT INTO dead (id, record) VALUES (?, ?)", (task_id, record))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        query = "SELECT record FROM dead ORDER BY place LIMIT ? OFFSET ?"
        rows = self.db.execute(query, (-1 if limit is None else limit, offset)).fetchall()
        return [json.loads(record) for (record,) in rows]

    def find_dead_task(self, task_id: str) -> Any:
        return next((it for it in self.list_dead_tasks()[::-1] if it["task_id"] == task_id), None)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = json.dumps(sorted(set(task_ids)))
        here = "FROM dead WHERE id IN (SELECT value FROM json_each(?))"
        self.db.execute("BEGIN IMMEDIATE")  # nobody removes what was counted
        with self.db:
            (count,) = self.db.execute(f"SELECT count(DISTINCT id) {here}", (ids,)).fetchone()
            self.db.execute(f"DELETE {here}", (ids,))
        return int(count)

    def sync(self) -> None:
        """Every statement is durable when it is done."""

    def close(self) -> None:
        self.db.close()


class Wal(Rollback):
    """A write-ahead log."""

    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = WAL", "synchronous = FULL")


class RollbackFull(Rollback):
    """A rollback journal with the setting that is the default."""

    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = DELETE", "synchronous = FULL")
