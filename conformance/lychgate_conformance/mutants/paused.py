"""Mutants that are right as long as nobody comes in between: a worker stopped at the right call
shows them every time. Each has a name that those who debug such stores know it by."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from lychgate_conformance._control import DeadRecord
from lychgate_conformance.adapters.sqlite_store import Wal
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._durable import Durable, Row
from lychgate_conformance.mutants.durable import RewriteInPlace

Tasks = list[tuple[str, object, float | None]]


@mutant("locks-its-data", "L5-ADD-002 L5-REM-001 L5-TWICE-002")
class GhostInode(Durable):
    """Locks the data file itself and does not look whether it still has its name."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        if not os.path.exists(self.dead):
            with super().locked():
                yield
            return
        fds = [os.open(file, os.O_RDWR | os.O_CLOEXEC) for file in (self.tasks, self.dead)]
        try:
            for fd in fds:
                fcntl.flock(fd, fcntl.LOCK_EX)
            self.ghosts = dict(zip((self.tasks, self.dead), fds, strict=True))
            yield
        finally:
            for fd in fds:
                os.close(fd)

    def append(self, file: str, row: Row) -> None:
        fd = self.ghosts[file]
        os.lseek(fd, 0, os.SEEK_END)
        self.write(fd, self.line(row))
        self.sync_file(fd)


@mutant("lock-file-unlinked", "L5-TWICE-001 L5-TWICE-002")
class LockFileUnlinked(Durable):
    """Removes its lock file when it lets go of the lock."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        with super().locked():
            yield
            with suppress(FileNotFoundError):
                os.unlink(self.lock)

    def append(self, file: str, row: Row) -> None:
        """Reads, and writes what was read with one more line: nobody else may be in."""
        self.replace(file, [*self.rows(file), row])

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        staging = f"{file}.{os.getpid()}"
        with open(staging, "wb") as found:
            found.write(b"".join(map(self.line, rows)))
            found.flush()
            os.fsync(found.fileno())
        os.rename(staging, file)
        self.sync_directory(self.directory)


@mutant("unlocked-before-rename", "L5-REM-001 L5-WAL-004")
class UnlockedBeforeRename(Durable):
    """Lets go of the lock when the new file is written, and then gives it its name."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.renames: list[tuple[str, str]] = []
        with super().locked():
            yield
        for staging, file in self.renames:
            os.rename(staging, file)
            self.sync_directory(self.directory)

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        self.renames.append((self.staged(file, rows), file))


@mutant("in-place-for-readers", "L5-REM-003")
class InPlaceForReaders(RewriteInPlace):
    """Rewrites in place under a lock that its readers do not take."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        last = None if limit is None else offset + limit
        return [DeadRecord(**row) for row in self.rows(self.dead)[offset:last]]


@mutant("half-of-each-file", "L5-READ-001")
class HalfOfEachFile(Durable):
    """Reads the first half of what it lists from one file and the rest from its successor."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        half = os.stat(self.dead).st_size // 2
        with open(self.dead, "rb") as found:
            content = found.read(half)
        with open(self.dead, "rb") as found:
            found.seek(half)
            content += found.read()
        rows = [self.row(line) for line in content.splitlines(keepends=True)]
        last = None if limit is None else offset + limit
        return [DeadRecord(**row) for row in rows if row is not None][offset:last]


@mutant("writes-where-it-ended", "L5-ADD-001")
class WritesWhereItEnded(Durable):
    """Looks for the end of the file, takes the lock, and writes where the end was."""

    def add_dead_task(self, *record: Any) -> None:
        self.end = os.stat(self.dead).st_size
        super().add_dead_task(*record)

    def append(self, file: str, row: Row) -> None:
        if file == self.tasks:
            super().append(file, row)
            return
        fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.lseek(fd, self.end, os.SEEK_SET)
            self.write(fd, self.line(row))
            self.sync_file(fd)
        finally:
            os.close(fd)


@mutant("half-a-line-is-fatal", "L5-ADD-003")
class HalfALineIsFatal(Durable):
    """Writes a line in two parts, and its readers, who take no lock, stumble over the first."""

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, data[: len(data) // 2])
        super().write(fd, data[len(data) // 2 :])

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        with open(self.dead, "rb") as found:
            rows = [json.loads(line[9:]) for line in found]
        last = None if limit is None else offset + limit
        return [DeadRecord(**row) for row in rows[offset:last]]


@mutant("makes-what-is-made", "L5-INIT-001")
class MakesWhatIsMade(Durable):
    """Sees that a file is not there and makes it by a rename, over one that came meanwhile."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        if hasattr(self, "ready"):
            with super().locked():
                yield
        else:
            yield
            self.ready = True

    def recover(self, file: str) -> None:
        if not os.path.exists(file):
            fresh = f"{file}.{os.getpid()}"
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.rename(fresh, file)
        self.sync_directory(self.directory)


@mutant("opens-by-rewriting", "L5-WAL-001 L5-WAL-003")
class OpensByRewriting(Durable):
    """Writes both files anew when it opens, from what it had read before it had the lock."""

    def recover(self, file: str) -> None:
        super().recover(file)
        if hasattr(self, "found"):
            self.replace(file, self.found[file])

    def make_directory(self) -> None:
        super().make_directory()
        names = [name for name in os.listdir(self.directory) if name.endswith(("tasks", "dead"))]
        if len(names) == 2:
            self.found = {self.file(name): self.rows(self.file(name)) for name in names}


@mutant("closed-before-unlinked", "L5-WAL-002")
class ClosedBeforeUnlinked(Durable):
    """Sees at its close that no task waits, lets go of the lock, and removes the file."""

    def rows(self, file: str) -> list[Row]:
        return super().rows(file) if os.path.exists(file) else []

    def append(self, file: str, row: Row) -> None:
        self.recover(file)
        super().append(file, row)

    def close(self) -> None:
        with self.locked():
            waits = self.rows(self.tasks)
        if not waits:
            os.unlink(self.tasks)


@mutant("closes-in-place", "L5-KILL-004")
class ClosesInPlace(Durable):
    """Leaves its file tidy: writes it anew, in place, when it is closed."""

    def close(self) -> None:
        with self.locked():
            rows = self.rows(self.tasks)
            with open(self.tasks, "wb", buffering=0) as found:
                found.write(b"".join(map(self.line, rows)))


@mutant("done-from-memory", "L5-WAL-004 L5-GIVE-001")
class DoneFromMemory(Durable):
    """Removes a task from both files by writing them as they were when the call began."""

    def remove_task(self, task_id: str) -> None:
        rows, dead = self.rows(self.tasks), self.rows(self.dead)
        with self.locked():
            self.replace(self.tasks, [it for it in rows if it["id"] != task_id])
            self.replace(self.dead, dead)


@mutant("looks-then-adds", "L5-WAL-005")
class LooksThenAdds(Durable):
    """Looks without the lock whether a task is there already, and then appends it."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if any(it["id"] == task_id for it in self.rows(self.tasks)):
            return super().add_task(task, publish_at, task_id)
        with self.locked():
            self.append(self.tasks, {"id": task_id, "task": task, "publish_at": publish_at})
        return str(task_id)


@mutant("sync-writes-back", "L5-SYNC-001")
class SyncWritesBack(Durable):
    """Makes everything durable by writing what it knows over what is there."""

    def sync(self) -> None:
        known = self.rows(self.tasks), self.rows(self.dead)
        with self.locked():
            for file, rows in zip((self.tasks, self.dead), known, strict=True):
                self.replace(file, rows)


@mutant("lock-by-its-name", "L5-KILL-001 L5-KILL-002 L5-KILL-005")
class LockByItsName(Durable):
    """Holds the lock by making a file, which stays when it is killed."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        deadline = time.monotonic() + 1.5
        while True:
            try:
                os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise TimeoutError("the store stayed locked") from None
                time.sleep(0.005)
        try:
            yield
        finally:
            os.unlink(self.lock)


@mutant("tail-of-the-killed", "L5-KILL-001")
class TailOfTheKilled(Durable):
    """Writes a line in two parts and appends behind what somebody left who was killed between."""

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, data[: len(data) // 2])
        super().write(fd, data[len(data) // 2 :])

    def append(self, file: str, row: Row) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self.write(fd, self.line(row))
            self.sync_file(fd)
        finally:
            os.close(fd)


@mutant("takes-over-by-moving", "L5-KILL-003")
class TakesOverByMoving(Durable):
    """Moves the tasks that it finds out of the way when it opens, and then back."""

    def recover(self, file: str) -> None:
        super().recover(file)
        if file == self.tasks:
            rows = self.rows(file)
            self.replace(file, [])
            self.replace(file, rows)


@mutant("counted-then-removed", "L5-ADD-002 L5-REM-002")
class CountedThenRemoved(Wal):
    """Counts in one statement what it removes in the next, each its own transaction."""

    claims: ClassVar[dict[str, object]] = dict(Wal.claims)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = json.dumps(sorted(set(task_ids)))
        here = "FROM dead WHERE id IN (SELECT value FROM json_each(?))"
        (count,) = self.db.execute(f"SELECT count(DISTINCT id) {here}", (ids,)).fetchone()
        self.db.execute(f"DELETE {here}", (ids,))
        return int(count)
