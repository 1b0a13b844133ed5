"""A small store: one append-only log, locked, replayed and fsynced by every change.

A line is the CRC of a change and the change as JSON. A crash of the host may leave any part of a
line that was never acknowledged, as zeros or as old bytes: the CRC tells, and a tail without its
newline is cut off. Directories that are made, and the log's name, are fsynced where they stand.
"""
from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class LogStore:
    """The seven methods over a file `{prefix}log`; any number of threads and processes."""

    claims: ClassVar[Mapping[str, object]] = {
        "pending_scope": "all",
        "survives_host_crash": True,
        "fsync_policy": "always",
        "uses_path": True,
        "reclaims_space": False,
        "multi_thread": True,
    }

    def __init__(self, path: str, prefix: str, fsync_frequency: float = 0.0) -> None:
        if "/" in prefix or "\0" in prefix:
            raise ValueError("a prefix is the start of a file name")
        directory = Path(path).absolute()
        missing = [it for it in (directory, *directory.parents) if not it.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        self._file = open(directory / f"{prefix}log", "a+b", buffering=0, opener=_private)
        # the parent of one that was there, too: who made it may have died, or failed, before this
        for place in dict.fromkeys((directory, directory.parent, *(it.parent for it in missing))):
            _sync_directory(place)
        self._seen = 0
        self._tasks: dict[str, tuple[Any, float | None]] = {}
        self._dead: list[dict[str, Any]] = []
        self._threads = threading.Lock()  # flock does not tell threads apart

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the log, and up to date with it."""
        with self._threads:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._catch_up()
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        self._file.seek(self._seen)
        new = self._file.read()
        whole = new[: new.rfind(b"\n") + 1]  # somebody was killed in the middle of the rest
        if len(whole) < len(new):
            self._file.truncate(self._seen + len(whole))
        for line in whole.split(b"\n")[:-1]:
            crc, _, change = line.partition(b" ")
            if crc == b"%08x" % zlib.crc32(change):
                self._apply(json.loads(change))
        self._seen += len(whole)

    def _append(self, change: list[Any]) -> None:
        said = json.dumps(change, allow_nan=False).encode("ascii")
        line = b"%08x %b\n" % (zlib.crc32(said), said)
        view = memoryview(line)
        while view:
            view = view[self._file.write(view) :]
        os.fsync(self._file.fileno())
        self._seen += len(line)
        self._apply(change)

    def _apply(self, change: list[Any]) -> None:
        what, subject, *rest = change
        if what == "add":
            self._tasks[subject] = (rest[0], rest[1])
        elif what == "remove":
            self._tasks.pop(subject, None)
        elif what == "dead":
            self._dead.append(subject)
        else:
            self._dead = [it for it in self._dead if it["task_id"] not in subject]

    # --- tasks --------------------------------------------------------------------------------

    def add_task(
        self, task: Any, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = secrets.token_hex(12) if task_id is None else task_id
        json.dumps(task)  # refuse before anything is locked
        with self._locked():
            self._append(["add", new, task, publish_at])
        return new

    def remove_task(self, task_id: str) -> None:
        with self._locked():
            if task_id in self._tasks:
                self._append(["remove", task_id])

    def pending_tasks(self) -> list[tuple[str, Any, float | None]]:
        with self._locked():
            return [(key, task, at) for key, (task, at) in self._tasks.items()]

    # --- dead tasks ---------------------------------------------------------------------------

    def add_dead_task(
        self, task_id: str, context: Any, exception: object, task_class: str, attempts: int
    ) -> None:
        try:
            message = str(exception)
        except Exception:  # it has no text
            message = ""
        record = {
            "task_id": task_id,
            "task_class": task_class,
            "attempts": attempts,
            "context": context,
            "error_class": type(exception).__qualname__,
            "error_message": message,
            "failed_at": time.time(),
            "enqueued_at": None,
        }
        json.dumps(record)
        with self._locked():
            self._append(["dead", record])

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
        with self._locked():
            return self._dead[offset:][:limit]

    def find_dead_task(self, task_id: str) -> dict[str, Any] | None:
        with self._locked():
            return next((it for it in reversed(self._dead) if it["task_id"] == task_id), None)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        with self._locked():
            found = {it["task_id"] for it in self._dead} & set(task_ids)
            if found:
                self._append(["remove-dead", sorted(found)])
            return len(found)

    def sync(self) -> None:
        """Every change is durable when it is answered."""

    def close(self) -> None:
        self._file.close()
