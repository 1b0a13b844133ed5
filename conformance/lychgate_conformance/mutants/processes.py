"""Mutants of the control: processes that end, are killed, race, fork."""

from __future__ import annotations

import atexit
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lychgate_conformance._control import Control
from lychgate_conformance.mutants._base import mutant

Tasks = list[tuple[str, object, float | None]]
_MOMENT_S = 0.002


@mutant("memory-only", "L1-OPEN-001 L1-OPEN-002 L1-OPEN-004 L1-KILL-001 L1-KILL-002 L1-KILL-012")
class MemoryOnly(Control):
    """Keeps everything in a file that it deletes when it opens."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with self.transaction() as db:
            db.execute("DELETE FROM tasks")
            db.execute("DELETE FROM dead")


@mutant("removals-in-memory", "L1-OPEN-003 L1-KILL-003 L1-OPEN-008 L1-KILL-009 L0-SEQ-002")
class RemovalsInMemory(Control):
    """Remembers what was removed for as long as it is open."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._gone: set[str] = set()

    def remove_task(self, task_id: str) -> None:
        self._gone.add(task_id)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(task, publish_at, task_id)
        self._gone.discard(key)
        return key

    def pending_tasks(self) -> Tasks:
        return [it for it in super().pending_tasks() if it[0] not in self._gone]


@mutant("doubles-at-open", "L1-OPEN-005 L1-OPEN-002")
class DoublesAtOpen(Control):
    """Writes the last dead task once more when it opens."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with self.transaction() as db:
            last = "SELECT id, record FROM dead ORDER BY place DESC LIMIT 1"
            db.execute(f"INSERT INTO dead (id, record) {last}")


@mutant("cleans-ids-at-open", "L1-OPEN-007")
class CleansIdsAtOpen(Control):
    """Cuts ids at their first NUL when it opens."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with self.transaction() as db:
            for (key,) in db.execute("SELECT id FROM tasks").fetchall():
                clean = json.dumps(json.loads(key).partition("\0")[0])
                db.execute("UPDATE OR REPLACE tasks SET id = ? WHERE id = ?", (clean, key))


@mutant("buffers-tasks", "L1-KILL-001 L1-KILL-004 L1-FORK-002")
class BuffersTasks(Control):
    """Keeps tasks in a buffer until there are ten, or it is asked, or the process ends."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._buffer: list[tuple[object, float | None, str]] = []
        atexit.register(self.flush)

    def flush(self) -> None:
        waiting, self._buffer = self._buffer, []
        for task, publish_at, key in waiting:
            super().add_task(task, publish_at, key)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = self.new_id() if task_id is None else task_id
        self._buffer.append((task, publish_at, key))
        if len(self._buffer) > 30:
            self.flush()
        return key

    def remove_task(self, task_id: str) -> None:
        self.flush()
        super().remove_task(task_id)

    def pending_tasks(self) -> Tasks:
        self.flush()
        return super().pending_tasks()


@mutant("buffers-the-dead", "L1-KILL-002 L1-KILL-005 L1-KILL-007 L1-KILL-009 L1-FORK-001")
class BuffersTheDead(Control):
    """Keeps dead tasks in a buffer until somebody asks for them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._buffer: list[tuple[str, object, object, str, int]] = []
        atexit.register(self.flush)

    def flush(self) -> None:
        waiting, self._buffer = self._buffer, []
        for record in waiting:
            super().add_dead_task(*record)

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        self._buffer.append((task_id, context, exception, task_class, attempts))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        self.flush()
        return super().list_dead_tasks(limit, offset)

    def find_dead_task(self, task_id: str) -> Any:
        self.flush()
        return super().find_dead_task(task_id)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        self.flush()
        return super().remove_dead_tasks(task_ids)


@mutant("sync-does-nothing", "L1-KILL-008 L1-KILL-001")
class SyncDoesNothing(BuffersTasks):
    """Buffers tasks, and a sync does not write the buffer."""

    def sync(self) -> None:
        return


@mutant("removes-by-rewriting", "L1-KILL-006 L1-RACE-003")
class RemovesByRewriting(Control):
    """Removes by deleting everything and writing the rest back, in two transactions."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = {json.dumps(it) for it in task_ids}
        with self.transaction() as db:
            rows = db.execute("SELECT id, record FROM dead ORDER BY place").fetchall()
            db.execute("DELETE FROM dead")
        time.sleep(_MOMENT_S * 3)
        with self.transaction() as db:
            kept = [row for row in rows if row[0] not in ids]
            db.executemany("INSERT INTO dead (id, record) VALUES (?, ?)", kept)
        return len(ids & {row[0] for row in rows})


@mutant("deletes-before-copying", "L1-KILL-011")
class DeletesBeforeCopying(Control):
    """Deletes the old file's tasks before it has written them to the new one, when it opens."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with self.transaction() as db:
            rows = db.execute("SELECT * FROM tasks").fetchall()
            db.execute("DELETE FROM tasks")
        time.sleep(0.05 if rows else 0.0)
        with self.transaction() as db:
            db.executemany("INSERT INTO tasks VALUES (?, ?, ?)", rows)


@mutant(
    "reads-then-writes",
    "L1-RACE-001 L1-RACE-002 L1-RACE-009 L1-THR-001 L1-THR-002 L1-THR-004 L1-THR-005 L1-FORK-007",
)
class ReadsThenWrites(Control):
    """Reads all dead tasks, adds one and writes them all back, without a lock in between."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        with self.transaction() as db:
            rows = db.execute("SELECT id, record FROM dead ORDER BY place").fetchall()
        time.sleep(_MOMENT_S)
        with self.transaction() as db:
            db.execute("DELETE FROM dead")
            db.executemany("INSERT INTO dead (id, record) VALUES (?, ?)", rows)
        super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("counts-before-removing", "L1-RACE-004")
class CountsBeforeRemoving(Control):
    """Counts what it will remove, and removes it a moment later."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = set(task_ids)
        found = len(ids & {it.task_id for it in self.list_dead_tasks()})
        time.sleep(_MOMENT_S * 2)
        super().remove_dead_tasks(ids)
        return found


@mutant("looks-before-making", "L1-RACE-005")
class LooksBeforeMaking(Control):
    """Looks whether its file is there, and fails when another makes it just then."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        mark = os.path.join(path, f"{prefix}mark")
        if not os.path.exists(mark):
            time.sleep(0.1)
            os.makedirs(path, exist_ok=True)
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o600))
        super().__init__(path, prefix, fsync_frequency)


@mutant("rewrites-at-close", "L1-RACE-007")
class RewritesAtClose(Control):
    """Writes what it knows over what is there when it is closed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        with self.transaction() as db:
            self._known = db.execute("SELECT * FROM tasks").fetchall()

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(task, publish_at, task_id)
        self._known.append((json.dumps(key), json.dumps(task), publish_at))
        return key

    def close(self) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM tasks")
            db.executemany("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", self._known)


@mutant("caches-the-dead", "L1-RACE-008 L0-SEQ-003")
class CachesTheDead(Control):
    """Lists dead tasks from memory until it changes one itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._cache: list[Any] | None = None

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        if self._cache is None:
            self._cache = super().list_dead_tasks()
        return self._cache[offset:] if limit is None else self._cache[offset : offset + limit]

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, attempts)
        self._cache = None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        self._cache = None
        return super().remove_dead_tasks(task_ids)


@mutant("one-process-only", "L1-FORK-001 L1-FORK-002 L1-FORK-003 L1-FORK-007")
class OneProcessOnly(Control):
    """Refuses to work in a process other than the one that opened it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._opener = os.getpid()

    def transaction(self) -> Any:
        if getattr(self, "_opener", os.getpid()) != os.getpid():
            raise RuntimeError("opened in another process")
        return super().transaction()


@mutant("connection-kept-over-a-fork", "L1-FORK-008")
class ConnectionKept(Control):
    """Keeps a connection in WAL mode over a fork, whose locks its child believes to have as well.

    The parent's close then takes the log away under the child.
    """

    def __init__(self, **options: Any) -> None:
        self._kept: dict[int, sqlite3.Connection] = {}
        self._turn = threading.Lock()
        super().__init__(**options)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._turn, self._connection() as db:  # which commits, or rolls back
            db.execute("BEGIN IMMEDIATE")
            yield db

    def _connection(self) -> sqlite3.Connection:
        if os.getpid() not in self._kept:
            db = sqlite3.connect(
                self.file, timeout=30.0, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            self._kept[os.getpid()] = db
        return self._kept[os.getpid()]

    def close(self) -> None:
        if (mine := self._kept.pop(os.getpid(), None)) is not None:
            mine.close()
