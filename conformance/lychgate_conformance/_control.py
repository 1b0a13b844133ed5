"""The control: a small backend that is right, and as unlike the disk backend as can be.

One SQLite file, one connection and one transaction per call. The suite must find nothing in it:
whatever it does find is the suite asking for more than the contract says. Most mutants are this
backend with one fault. It makes no promise about host crashes (`synchronous = OFF`).
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, task TEXT NOT NULL, publish_at REAL);
CREATE TABLE IF NOT EXISTS dead (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS dead_id ON dead (id);
"""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A dead task."""

    task_id: str
    task_class: str
    attempts: int
    context: object
    error_class: str
    error_message: str
    failed_at: float
    enqueued_at: float | None = None


class Control:
    """A backend on one SQLite file."""

    claims: ClassVar[Mapping[str, object]] = {"pending_scope": "all", "uses_path": True}

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        if "/" in prefix or "\0" in prefix:
            raise ValueError("a prefix is the start of a file name")
        directory = os.path.abspath(path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self.file = os.path.join(directory, f"{prefix}control.sqlite3")
        os.close(os.open(self.file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with self.transaction() as db:
            for statement in _SCHEMA.strip().split(";\n"):
                db.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection in a write transaction, which ends when the block does."""
        db = sqlite3.connect(self.file, timeout=30.0, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        finally:
            db.close()  # without a commit: nothing happened

    # --- tasks --------------------------------------------------------------------------------

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = self.new_id() if task_id is None else task_id
        row = (json.dumps(new), json.dumps(task, allow_nan=False), publish_at)
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", row)
        return new

    def new_id(self) -> str:
        return secrets.token_hex(12)

    def remove_task(self, task_id: str) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM tasks WHERE id = ?", (json.dumps(task_id),))

    def pending_tasks(self) -> list[tuple[str, object, float | None]]:
        with self.transaction() as db:
            rows = db.execute("SELECT id, task, publish_at FROM tasks").fetchall()
        return [(json.loads(key), json.loads(task), at) for key, task, at in rows]

    # --- dead tasks ---------------------------------------------------------------------------

    @staticmethod
    def record(
        task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> dict[str, object]:
        """What is stored of a dead task."""
        try:
            message = str(exception)
        except Exception:  # foreign code
            message = "(no text)"
        return {
            "task_id": task_id,
            "task_class": task_class,
            "attempts": attempts,
            "context": context,
            "error_class": type(exception).__qualname__,
            "error_message": message,
            "failed_at": time.time(),
        }

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        record = self.record(task_id, context, exception, task_class, attempts)
        row = (json.dumps(task_id), json.dumps(record, allow_nan=False))
        with self.transaction() as db:
            db.execute("INSERT INTO dead (id, record) VALUES (?, ?)", row)

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        query = "SELECT record FROM dead ORDER BY place LIMIT ? OFFSET ?"
        with self.transaction() as db:
            rows = db.execute(query, (-1 if limit is None else limit, offset)).fetchall()
        return [DeadRecord(**json.loads(record)) for (record,) in rows]

    def find_dead_task(self, task_id: str) -> Any:
        query = "SELECT record FROM dead WHERE id = ? ORDER BY place DESC LIMIT 1"
        with self.transaction() as db:
            row = db.execute(query, (json.dumps(task_id),)).fetchone()
        return None if row is None else DeadRecord(**json.loads(row[0]))

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        found = 0
        with self.transaction() as db:
            for task_id in set(task_ids):
                gone = db.execute("DELETE FROM dead WHERE id = ?", (json.dumps(task_id),))
                found += bool(gone.rowcount)
        return found

    # --- the rest -----------------------------------------------------------------------------

    def tick(self, now: float) -> float | None:
        """Nothing is ever due."""
        return None

    def sync(self) -> None:
        """Every call is committed when it returns."""

    def stats(self) -> dict[str, int]:
        with self.transaction() as db:
            (tasks,) = db.execute("SELECT count(*) FROM tasks").fetchone()
            (dead,) = db.execute("SELECT count(*) FROM dead").fetchone()
        return {"tasks": tasks, "dead_tasks": dead}

    def close(self) -> None:
        """No call leaves anything open."""
