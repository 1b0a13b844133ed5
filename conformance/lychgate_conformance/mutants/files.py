"""Mutants of the control and of the disk backend: names, modes, links, neighbours."""

from __future__ import annotations

import glob
import os
import shutil
import sqlite3
import unicodedata
from collections.abc import Iterable
from typing import Any

from lychgate import Disk
from lychgate_conformance._control import Control
from lychgate_conformance._layout import is_wal
from lychgate_conformance.mutants._base import mutant


@mutant("stray-file", "L0-FILE-001")
class StrayFile(Control):
    """Keeps a log in the current directory."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, attempts)
        with open("dead-tasks.log", "a") as log:
            log.write("one more\n")


@mutant("tidies-up", "L0-FILE-002")
class TidiesUp(Control):
    """Deletes files of its prefix that it does not know."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        super().__init__(path, prefix, fsync_frequency)
        for name in os.listdir(path):
            if name.startswith(prefix) and "control.sqlite3" not in name:
                os.unlink(os.path.join(path, name))


@mutant("world-readable", "L0-FILE-003")
class WorldReadable(Control):
    """Lets everybody read its files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        os.chmod(self.file, 0o644)


@mutant("glob-prefix", "L0-FILE-005 L0-FILE-006 L1-PFX-001")
class GlobPrefix(Control):
    """Takes over the tasks of every file that begins like its own."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        super().__init__(path, prefix, fsync_frequency)
        for other in glob.glob(os.path.join(path, f"{prefix}*.sqlite3")):
            if os.path.abspath(other) != self.file:
                self._take(other)

    def _take(self, other: str) -> None:
        with sqlite3.connect(other) as theirs:
            rows = theirs.execute("SELECT * FROM tasks").fetchall()
            theirs.execute("DELETE FROM tasks")
        theirs.close()
        with self.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)", rows)


@mutant("composed-prefix", "L0-FILE-007")
class ComposedPrefix(Control):
    """Brings the prefix into Unicode's composed form."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        super().__init__(path, unicodedata.normalize("NFC", prefix), fsync_frequency)


@mutant("any-prefix", "L0-FILE-008")
class AnyPrefix(Control):
    """Makes a file name out of any prefix."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        super().__init__(path, prefix.replace("/", "_").replace("\0", "_"), fsync_frequency)


@mutant("one-directory", "L0-FILE-009")
class OneDirectory(Control):
    """Makes the last directory of a path, and no other."""

    def __init__(self, **options: Any) -> None:
        if not os.path.isdir(os.path.dirname(os.path.abspath(options["path"]))):
            raise FileNotFoundError(options["path"])
        super().__init__(**options)


@mutant("replaces-links", "L0-FILE-010")
class ReplacesLinks(Control):
    """Puts a directory in place of a link to one."""

    def __init__(self, **options: Any) -> None:
        if os.path.islink(options["path"]):
            os.unlink(options["path"])
        super().__init__(**options)


@mutant("late-path", "L0-FILE-011")
class LatePath(Control):
    """Looks a relative path up anew in every call."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not os.path.isabs(options["path"]):
            self.file = os.path.join(options["path"], os.path.basename(self.file))


class _DiskAfter(Disk):
    """Does something to the files after a call."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        super().__init__(path, prefix, fsync_frequency)
        self.directory, self.prefix = os.path.abspath(path), prefix
        self.data = os.path.join(self.directory, f"{prefix}dead_tasks-0")

    def after_removal(self) -> None:
        """Called after each removal of dead tasks."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        count = super().remove_dead_tasks(task_ids)
        self.after_removal()
        return count


@mutant("resets-mode", "L0-FILE-004")
class ResetsMode(_DiskAfter):
    """Gives the data file its own mode back at each removal."""

    def after_removal(self) -> None:
        os.chmod(self.data, 0o600)


@mutant("renames-over-link", "L0-FILE-012")
class RenamesOverLink(_DiskAfter):
    """Renames over the link instead of what it leads to."""

    def after_removal(self) -> None:
        if os.path.islink(self.data):
            shutil.copy(os.path.realpath(self.data), f"{self.data}.new")
            os.rename(f"{self.data}.new", self.data)


@mutant("index-file", "L0-FILE-013")
class IndexFile(_DiskAfter):
    """Keeps an index beside the dead tasks."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, attempts)
        with open(
            f"{self.data}.index", "a", opener=lambda name, flags: os.open(name, flags, 0o600)
        ):
            pass


@mutant("comment-lines", "L0-FILE-014")
class CommentLines(_DiskAfter):
    """Writes a comment behind each dead task."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, attempts)
        with open(self.data, "ab") as file:
            file.write(b"# one more\n")


@mutant("comment-lines-in-wal", "L0-FILE-015")
class CommentLinesInWal(_DiskAfter):
    """Writes a comment behind each removal of a task."""

    def remove_task(self, task_id: str) -> None:
        super().remove_task(task_id)
        for name in os.listdir(self.directory):
            if is_wal(name, self.prefix):
                with open(os.path.join(self.directory, name), "ab") as file:
                    file.write(b"# one less\n")


@mutant("leaves-staging", "L0-FILE-016")
class LeavesStaging(_DiskAfter):
    """Leaves its staging file where it is."""

    def after_removal(self) -> None:
        with open(f"{self.data}.tmp", "wb"):
            pass


@mutant("never-tidies", "L0-FILE-017")
class NeverTidies(_DiskAfter):
    """Leaves something behind at every close."""

    def close(self) -> None:
        super().close()
        name = f"{self.prefix}0-20200101-77-{os.urandom(8).hex()}"
        os.mkdir(os.path.join(self.directory, name))


@mutant("never-rotates", "L0-ROT-003")
class NeverRotates(Control):
    """Writes every task into a journal that only grows."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        with open(f"{self.file}-journal-of-tasks", "a") as journal:
            journal.write(f"{task!r}\n")
        return super().add_task(task, publish_at, task_id)
