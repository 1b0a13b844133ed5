"""`Durable`: a small store on two plain files that survives a host crash; the seams of its mutants.

    {prefix}tasks   {prefix}dead   one line for each record: CRC, blank, JSON
    {prefix}lock    flock, held by every call

A record is appended and fsynced; anything else rewrites the file beside it and renames. After a
change that failed the file is rewritten before the next one: what a failed fsync leaves in the
cache proves nothing. The suite must find nothing in it, and each mutant of `durable` and `faults`
overrides one of its seams.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from lychgate_conformance._control import Control, DeadRecord

Row = dict[str, Any]


class Durable:
    """Two files and a lock."""

    claims: ClassVar[Mapping[str, object]] = {
        "pending_scope": "all",
        "fsync_policy": "always",
        "survives_host_crash": True,
        "uses_path": True,
        "multi_thread": False,
        "fork_safe": False,
    }

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        if "/" in prefix or "\0" in prefix:
            raise ValueError("a prefix is the start of a file name")
        self.directory = os.path.abspath(path)
        self.frequency = fsync_frequency
        self.unsure: set[str] = set()
        self.make_directory()
        self.tasks, self.dead = (self.file(prefix + name) for name in ("tasks", "dead"))
        self.lock = self.file(prefix + "lock")
        with self.locked():
            for file in (self.tasks, self.dead):
                self.recover(file)

    def file(self, name: str) -> str:
        return os.path.join(self.directory, name)

    # --- seams --------------------------------------------------------------------------------

    def make_directory(self) -> None:
        """Every directory that is made is fsynced into its parent, and so is the last one where
        somebody else made it: they may have died, or failed, before that."""
        missing = [self.directory]
        while not os.path.isdir(parent := os.path.dirname(missing[-1])):
            missing.append(parent)
        for directory in reversed(missing):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self.sync_directory(os.path.dirname(directory))

    def recover(self, file: str) -> None:
        """What an earlier process left: a file that is not there, or a rewrite that was cut off."""
        if self.is_there(file):
            self.sync_directory(self.directory)
            return
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            self.sync_directory(self.directory)
        except OSError:
            os.unlink(file)  # or the next one takes its name for durable
            raise

    def is_there(self, file: str) -> bool:
        """OSError where that cannot be told: a file that cannot be looked at is not a new one."""
        try:
            os.stat(file)
        except FileNotFoundError:
            return False
        return True

    def sync_directory(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file(self, fd: int) -> None:
        os.fsync(fd)

    def line(self, row: Row) -> bytes:
        body = json.dumps(row, separators=(",", ":")).encode("ascii")
        return b"%08x %b\n" % (zlib.crc32(body), body)

    def row(self, line: bytes) -> Row | None:
        """The record of a line, None when there is none."""
        if line[8:9] != b" " or line[:8] != b"%08x" % zlib.crc32(line[9:].rstrip(b"\n")):
            return None
        row: Row = json.loads(line[9:])
        return row

    def append(self, file: str, row: Row) -> None:
        """Behind the last whole line; what is left of a torn one goes."""
        with open(file, "rb") as found:
            content = found.read()
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.ftruncate(fd, whole)
            self.write(fd, self.line(row))
            self.sync_file(fd)
        finally:
            os.close(fd)
        self.sync_directory(self.directory)  # its name may be somebody's who died before this

    def write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def staged(self, file: str, rows: Iterable[Row]) -> str:
        """A file with these rows beside `file`, synced."""
        staging = f"{file}.new"
        fd = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self.write(fd, b"".join(map(self.line, rows)))
            self.sync_file(fd)
        finally:
            os.close(fd)
        return staging

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        """Other rows under the same name."""
        os.rename(self.staged(file, rows), file)
        self.sync_directory(self.directory)

    def rows(self, file: str) -> list[Row]:
        """The valid records of a file."""
        with open(file, "rb") as found:
            lines = [it for it in found.read().splitlines(keepends=True) if it.endswith(b"\n")]
        return [row for row in map(self.row, lines) if row is not None]

    @contextmanager
    def locked(self) -> Iterator[None]:
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def changing(self, file: str) -> Iterator[None]:
        """The lock, and a file whose state is known: it is not, from a change to its good end."""
        with self.locked():
            if file in self.unsure:
                self.replace(file, self.rows(file))
            self.unsure.add(file)
            yield
            self.unsure.discard(file)

    # --- the facade ---------------------------------------------------------------------------

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = secrets.token_hex(12) if task_id is None else task_id
        row = {"id": new, "task": task, "publish_at": publish_at}
        with self.changing(self.tasks):
            rows = self.rows(self.tasks)
            if any(it["id"] == new for it in rows):
                self.replace(self.tasks, [*(it for it in rows if it["id"] != new), row])
            else:
                self.append(self.tasks, row)
        return new

    def remove_task(self, task_id: str) -> None:
        with self.changing(self.tasks):
            self._keep(self.tasks, lambda row: row["id"] != task_id)

    def pending_tasks(self) -> list[tuple[str, object, float | None]]:
        with self.locked():
            rows = self.rows(self.tasks)
        return [(row["id"], row["task"], row["publish_at"]) for row in rows]

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        record = Control.record(task_id, context, exception, task_class, attempts)
        with self.changing(self.dead):
            self.append(self.dead, {**record, "enqueued_at": None})

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadRecord]:
        with self.locked():
            rows = self.rows(self.dead)
        last = None if limit is None else offset + limit
        return [DeadRecord(**row) for row in rows[offset:last]]

    def find_dead_task(self, task_id: str) -> DeadRecord | None:
        found = [it for it in self.list_dead_tasks() if it.task_id == task_id]
        return found[-1] if found else None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = frozenset(task_ids)
        with self.changing(self.dead):
            gone = self._keep(self.dead, lambda row: row["task_id"] not in ids)
        return len({row["task_id"] for row in gone})

    def _keep(self, file: str, wanted: Callable[[Row], bool]) -> list[Row]:
        """Drop the other rows; which they were."""
        rows = self.rows(file)
        gone = [row for row in rows if not wanted(row)]
        if gone:
            self.replace(file, [row for row in rows if wanted(row)])
        return gone

    def sync(self) -> None:
        """Everything was fsynced before it was acknowledged."""

    def close(self) -> None:
        """Nothing is held between two calls."""


class Mapped(Durable):
    """Writes through a shared mapping, which no trace of calls can follow: not measurable."""

    def write(self, fd: int, data: bytes) -> None:
        size = os.fstat(fd).st_size
        other = os.open(os.readlink(f"/proc/self/fd/{fd}"), os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(other, size + len(data))
            with mmap.mmap(other, size + len(data)) as memory:
                memory[size:] = data
        finally:
            os.close(other)


class Batching(Durable):
    """Fsyncs its tasks in batches; when one is due, its subclasses say."""

    claims: ClassVar[dict[str, object]] = {**Durable.claims, "fsync_policy": "batched"}

    def append(self, file: str, row: Row) -> None:
        self.batching = file == self.tasks and self.frequency > 0
        super().append(file, row)
        self.batching = False

    def sync_file(self, fd: int) -> None:
        if not getattr(self, "batching", False):
            super().sync_file(fd)
