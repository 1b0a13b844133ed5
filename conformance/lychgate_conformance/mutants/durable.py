"""Mutants of the durable store: what only a crash at the right moment, or of the host, shows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, ClassVar

from lychgate_conformance.adapters.sqlite_store import Rollback, Wal
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._durable import Batching, Durable, Row


class _Cached(Durable):
    """What is appended to one of its files stays in the cache; `cached` is the file's attribute."""

    cached: ClassVar[str]

    def append(self, file: str, row: Row) -> None:
        self.unsynced = file == getattr(self, self.cached)
        super().append(file, row)

    def sync_file(self, fd: int) -> None:
        if not getattr(self, "unsynced", False):
            super().sync_file(fd)
        self.unsynced = False


@mutant("dead-not-fsynced", "L3-DLQ-001 L3-HANDOFF-001 L3-TWO-001")
class DeadNotFsynced(_Cached):
    """Acknowledges a dead task that is in the cache only."""

    cached = "dead"


@mutant("tasks-not-fsynced", "L3-WAL-001 L3-RECOVER-003")
class TasksNotFsynced(_Cached):
    """Acknowledges tasks that are in the cache only, whatever the frequency."""

    cached = "tasks"


@mutant("rename-not-durable", "L3-DLQ-002 L3-WAL-003")
class RenameNotDurable(Durable):
    """Acknowledges a rewrite before its name is durable."""

    def sync_directory(self, directory: str) -> None:
        if not hasattr(self, "renaming"):
            super().sync_directory(directory)

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        self.renaming = True
        super().replace(file, rows)
        del self.renaming


@mutant("staging-not-fsynced", "L3-DLQ-004")
class StagingNotFsynced(Durable):
    """Renames a rewritten file before its bytes are durable."""

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        self.replacing = True
        super().replace(file, rows)
        del self.replacing

    def sync_file(self, fd: int) -> None:
        if not hasattr(self, "replacing"):
            super().sync_file(fd)


@mutant("fsync-before-write", "L3-DLQ-001")
class FsyncBeforeWrite(Durable):
    """Fsyncs a file and then writes to it."""

    def write(self, fd: int, data: bytes) -> None:
        os.fsync(fd)
        super().write(fd, data)

    def sync_file(self, fd: int) -> None:
        return


@mutant("directory-not-durable", "L3-INIT-001")
class DirectoryNotDurable(Durable):
    """Makes its directory and never fsyncs the one above it."""

    def make_directory(self) -> None:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)


@mutant("names-not-durable", "L3-INIT-001")
class NamesNotDurable(Durable):
    """Makes its files and never fsyncs their directory."""

    def sync_directory(self, directory: str) -> None:
        if directory != self.directory:
            super().sync_directory(directory)


@mutant("rewrite-in-place", "L2-CUT-004 L2-KILL-001")
class RewriteInPlace(Durable):
    """Empties a file and writes the records that stay."""

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            self.write(fd, b"".join(map(self.line, rows)))
            self.sync_file(fd)
        finally:
            os.close(fd)


@mutant("unlink-then-rename", "L2-CUT-002")
class UnlinkThenRename(Durable):
    """Removes the old file before the new one has its name."""

    def sync_file(self, fd: int) -> None:
        super().sync_file(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(".new"):
            os.unlink(path.removesuffix(".new"))


@mutant("torn-tail-kept", "L2-CUT-001 L3-RECOVER-001")
class TornTailKept(Durable):
    """Appends behind what is left of a torn line."""

    def append(self, file: str, row: Row) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self.write(fd, self.line(row))
            self.sync_file(fd)
        finally:
            os.close(fd)
        self.sync_directory(self.directory)


@mutant("torn-line-fatal", "L2-CUT-003")
class TornLineFatal(Durable):
    """Cannot be opened when a line is torn."""

    def rows(self, file: str) -> list[Row]:
        with open(file, "rb") as found:
            for line in found.read().splitlines(keepends=True):
                if self.row(line) is None:
                    raise ValueError(f"a bad line in {file}")
        return super().rows(file)

    def recover(self, file: str) -> None:
        super().recover(file)
        self.rows(file)


@mutant("staging-adopted", "L2-CUT-002")
class StagingAdopted(Durable):
    """Takes whatever rewrite it finds at its start for a finished one."""

    def recover(self, file: str) -> None:
        if os.path.exists(f"{file}.new"):
            os.rename(f"{file}.new", file)
        super().recover(file)


@mutant("answered-before-written", "L2-CUT-006")
class AnsweredBeforeWritten(Durable):
    """Writes a dead task with the next call."""

    waits: list[tuple[Any, ...]]

    def add_dead_task(self, *record: Any) -> None:
        self._settle()
        self.waits = [record]

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        self._settle()
        return super().list_dead_tasks(limit, offset)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        self._settle()
        return super().remove_dead_tasks(task_ids)

    def _settle(self) -> None:
        for record in getattr(self, "waits", []):
            super().add_dead_task(*record)
        self.waits = []


@mutant("task-buffered", "L2-CUT-005 L2-KILL-002")
class TaskBuffered(Durable):
    """Keeps the newest task in memory until the next one comes."""

    waits: list[tuple[Any, ...]]

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        self._settle()
        self.waits = [(task, publish_at, task_id)]
        return str(task_id)

    def remove_task(self, task_id: str) -> None:
        self._settle()
        super().remove_task(task_id)

    def pending_tasks(self) -> list[tuple[str, object, float | None]]:
        self._settle()
        return super().pending_tasks()

    def _settle(self) -> None:
        for task in getattr(self, "waits", []):
            super().add_task(*task)
        self.waits = []


@mutant("sync-as-a-wish", "L3-WAL-002 L3-HANDOFF-002")
class SyncDoesNothing(Batching):
    """Batches its fsyncs and takes `sync` for a wish."""


@mutant("cleans-up-the-dead", "L2-CUT-005")
class CleansUpTheDead(Durable):
    """Rewrites both files in place when it opens."""

    def recover(self, file: str) -> None:
        super().recover(file)
        rows = self.rows(file)
        fd = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            self.write(fd, b"".join(map(self.line, rows)))
            self.sync_file(fd)
        finally:
            os.close(fd)


@mutant("no-checksum", "L3-DLQ-003 L3-RECOVER-002")
class NoChecksum(Durable):
    """Writes a line in two parts, its end first reserved, and trusts every line that has one."""

    def write(self, fd: int, data: bytes) -> None:
        super().write(fd, b" " * (len(data) - 1) + b"\n")
        path = os.readlink(f"/proc/self/fd/{fd}")
        other = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(other, data, os.fstat(other).st_size - len(data))
        finally:
            os.close(other)

    def row(self, line: bytes) -> Row | None:
        row: Row = json.loads(line[9:])
        return row


@mutant("trusts-the-name", "L3-RECOVER-004")
class TrustsTheName(Durable):
    """Takes the name of a file that it finds for durable, whoever made it and died."""

    def recover(self, file: str) -> None:
        if not self.is_there(file):
            super().recover(file)

    def append(self, file: str, row: Row) -> None:
        self.appending = True
        super().append(file, row)
        del self.appending

    def sync_directory(self, directory: str) -> None:
        if not hasattr(self, "appending"):
            super().sync_directory(directory)


@mutant("sqlite-normal", "L3-DLQ-001")
class SqliteNormal(Wal):
    """SQLite with a write-ahead log that is not fsynced with each commit."""

    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = WAL", "synchronous = NORMAL")


@mutant("sqlite-off", "L3-DLQ-001")
class SqliteOff(Rollback):
    """SQLite without any fsync."""

    pragmas: ClassVar[tuple[str, ...]] = ("journal_mode = DELETE", "synchronous = OFF")
