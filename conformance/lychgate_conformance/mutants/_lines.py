"""`LineDisk`: the disk backend with its dead tasks done again, plainly, on the same files.

It reads whole files into memory and takes no care of power failures, but it is right for as long
as only processes die; the suite must find nothing in it. What makes it useful are its seams: each
mutant of `damage` overrides one of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lychgate import DeadTask, DeadTasksLockTimeout, Disk, Undecodable
from lychgate_conformance._control import Control
from lychgate_conformance._layout import body_of_line, seal

_WAIT_S = 5.0


class LineDisk(Disk):
    """The disk backend's files, dead tasks written and read in the plainest way."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        directory = os.path.abspath(path)
        self.data = os.path.join(directory, f"{prefix}dead_tasks-0")
        self.lock = os.path.join(directory, f"{prefix}dead_tasks.lock")
        self.counts: Counter[str] = Counter()
        self.before_open()
        super().__init__(path, prefix, fsync_frequency)

    def before_open(self) -> None:
        """Called before the files are opened."""

    # --- seams --------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the dead-task files."""
        deadline = time.monotonic() + _WAIT_S
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not self._try(fd):
                if time.monotonic() > deadline:
                    raise DeadTasksLockTimeout("the dead-task store stayed locked")
                time.sleep(0.01)
                os.close(fd)
                fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            yield
        finally:
            os.close(fd)

    def _try(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(fd), os.lstat(self.lock))
        except OSError:
            return False

    def read(self) -> bytes:
        """The data file."""
        with open(self.data, "rb") as file:
            return file.read()

    def split(self, content: bytes) -> list[bytes]:
        """The complete lines, with their newlines."""
        return [it for it in content.splitlines(keepends=True) if it.endswith(b"\n")]

    def body(self, line: bytes) -> bytes | None:
        """The body of a line that is valid."""
        found = body_of_line(line[:-1])
        self.counts["lines_skipped"] += found is None
        return found

    def repaired(self, content: bytes) -> bytes:
        """What is to stand in front of a new record."""
        return content[: content.rfind(b"\n") + 1]

    def survives(self, line: bytes, task_ids: frozenset[str]) -> bool:
        """Whether a removal keeps a line."""
        dead = self.parse(line)
        return dead is not None and dead.task_id not in task_ids

    def parse(self, line: bytes) -> DeadTask | None:
        """The dead task of a line, None when there is none."""
        body = self.body(line)
        try:
            fields = None if body is None else json.loads(body)
            if isinstance(fields, dict) and "codec" in fields:
                fields["context"] = Undecodable(fields.pop("codec"), fields.pop("data").encode())
            return DeadTask(**fields) if isinstance(fields, dict) else None
        except (ValueError, TypeError):
            return None

    # --- the facade ---------------------------------------------------------------------------

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        record = Control.record(task_id, context, exception, task_class, attempts)
        line = seal(json.dumps({**record, "enqueued_at": None}, separators=(",", ":")).encode())
        with self.locked():
            content = self.read()
            kept = self.repaired(content)
            self.counts["tails_repaired"] += kept != content
            fd = os.open(self.data, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            with open(fd, "wb") as file:
                if not content.startswith(kept):
                    file.truncate(0)
                    file.write(kept)
                else:
                    file.truncate(len(kept))
                file.write(line)

    def records(self) -> list[DeadTask]:
        with self.locked():
            parsed = [self.parse(it) for it in self.split(self.read())]
        return [it for it in parsed if it is not None]

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return self.records()[offset : None if limit is None else offset + limit]

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        found = [it for it in self.records() if it.task_id == task_id]
        return found[-1] if found else None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = frozenset(task_ids)
        if not ids:
            return 0
        with self.locked():
            lines = self.split(self.read())
            found = {it.task_id for it in map(self.parse, lines) if it is not None} & ids
            if found:
                self.replace(b"".join(it for it in lines if self.survives(it, ids)))
        return len(found)

    def replace(self, content: bytes) -> None:
        """Other content under the same name."""
        live = os.path.realpath(self.data)
        staging = f"{live}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with open(os.open(staging, flags, 0o600), "wb") as file:
            os.fchmod(file.fileno(), os.stat(live).st_mode & 0o777)
            file.write(content)
        os.rename(staging, live)

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), **{name: n for name, n in self.counts.items() if n}}
