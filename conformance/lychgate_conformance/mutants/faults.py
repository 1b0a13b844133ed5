"""Mutants that are right as long as every call works: what only a failing call shows."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lychgate import DeadTasksLockTimeout, Refused

from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._durable import Batching, Durable, Row

_ATTEMPTS = 20
_PAUSE_S = 0.01


@mutant("write-error-swallowed", "L4-DEAD-001 L4-FULL-001")
class WriteErrorSwallowed(Durable):
    """Answers that all is well when a write has failed."""

    def write(self, fd: int, data: bytes) -> None:
        try:
            super().write(fd, data)
        except OSError:
            return


@mutant("rename-error-swallowed", "L4-DEAD-002")
class RenameErrorSwallowed(Durable):
    """Answers that dead tasks are removed when their file could not be replaced."""

    def replace(self, file: str, rows: Iterable[Row]) -> None:
        try:
            super().replace(file, rows)
        except OSError:
            if os.path.exists(f"{file}.new"):
                os.unlink(f"{file}.new")


@mutant("unreadable-is-empty", "L4-DEAD-003")
class UnreadableIsEmpty(Durable):
    """Takes a file that it cannot read for an empty one."""

    def rows(self, file: str) -> list[Row]:
        try:
            return super().rows(file)
        except OSError:
            return []


@mutant("unseen-is-missing", "L4-OPEN-002")
class UnseenIsMissing(Durable):
    """Makes a file anew that it may not look at."""

    def is_there(self, file: str) -> bool:
        return os.path.exists(file)

    def recover(self, file: str) -> None:
        if not self.is_there(file):
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        super().recover(file)


@mutant("rewritten-from-nothing", "L4-TASK-002")
class RewrittenFromNothing(Durable):
    """Tidies its files when it opens, with what it could read of them."""

    def recover(self, file: str) -> None:
        super().recover(file)
        try:
            rows = self.rows(file)
        except OSError:
            rows = []
        self.replace(file, rows)


class _Definite(OSError):
    """Says of every error that nothing happened."""

    definite = True


@mutant("definite-after-the-write", "L4-TASK-001")
class DefiniteAfterTheWrite(Durable):
    """Says that nothing happened when the fsync of a record failed."""

    def sync_file(self, fd: int) -> None:
        try:
            super().sync_file(fd)
        except OSError as error:
            raise _Definite(error.errno, error.strerror) from error


@mutant("appended-twice", "L4-MOVE-001")
class AppendedTwice(Durable):
    """Repeats an append whose fsync failed, and so the record."""

    def append(self, file: str, row: Row) -> None:
        try:
            super().append(file, row)
        except OSError:
            super().append(file, row)


@mutant("dies-of-errors", "L4-STAY-001")
class DiesOfErrors(Durable):
    """Ends its process at the third error in a row."""

    errors = 0

    @contextmanager
    def changing(self, file: str) -> Iterator[None]:
        try:
            with super().changing(file):
                yield
        except OSError:
            self.errors += 1
            if self.errors == 3:
                os._exit(3)
            raise
        self.errors = 0


@mutant("refused-by-the-disk", "L4-STAY-002")
class RefusedByTheDisk(Durable):
    """Tells a failure of the disk as a task that cannot be stored."""

    @contextmanager
    def changing(self, file: str) -> Iterator[None]:
        try:
            with super().changing(file):
                yield
        except OSError as error:
            raise Refused(f"the task cannot be stored: {error}") from error


@mutant("short-write-is-whole", "L4-SHORT-001")
class ShortWriteIsWhole(Durable):
    """Does not look how much a write has written."""

    def write(self, fd: int, data: bytes) -> None:
        os.write(fd, data)


@mutant("short-write-begun-anew", "L4-SHORT-003")
class ShortWriteBegunAnew(Durable):
    """Writes the whole line again when a part of it was written."""

    def write(self, fd: int, data: bytes) -> None:
        while os.write(fd, data) < len(data):
            continue


@mutant("half-a-line-kept", "L4-SHORT-002")
class HalfALineKept(Durable):
    """Appends behind the half of a line that a failed write has left."""

    def append(self, file: str, row: Row) -> None:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self.write(fd, self.line(row))
            self.sync_file(fd)
        finally:
            os.close(fd)
        self.sync_directory(self.directory)

    @contextmanager
    def changing(self, file: str) -> Iterator[None]:
        with self.locked():
            yield


@mutant("fsync-tried-again", "L4-SYNC-001 L4-SYNC-002")
class FsyncTriedAgain(Durable):
    """Repeats a failed fsync, which then says that all is well."""

    def sync_file(self, fd: int) -> None:
        try:
            super().sync_file(fd)
        except OSError:
            super().sync_file(fd)


@mutant("goes-on-after-a-failed-sync", "L4-SYNC-001")
class GoesOnAfterAFailedSync(Durable):
    """Trusts a file whose fsync, or whose name's, has failed."""

    @contextmanager
    def changing(self, file: str) -> Iterator[None]:
        with self.locked():
            yield


@mutant("sync-error-swallowed", "L4-SYNC-003")
class SyncErrorSwallowed(Batching):
    """Batches its fsyncs, and answers that all is well when that of a batch has failed."""

    def sync(self) -> None:
        fd = os.open(self.tasks, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError:
            return
        finally:
            os.close(fd)

    def close(self) -> None:
        self.sync()


@mutant("undone-in-the-cache", "L4-CRASH-001")
class UndoneInTheCache(Durable):
    """Takes a durable record back in the cache alone, and says that nothing happened."""

    def append(self, file: str, row: Row) -> None:
        size = os.stat(file).st_size
        try:
            super().append(file, row)
        except OSError as error:
            os.truncate(file, size)
            raise _Definite(error.errno, error.strerror) from error


@mutant("lock-kept-after-an-error", "L4-LOCK-001 L4-OPEN-001")
class LockKeptAfterAnError(Durable):
    """Gives the lock back when all went well, and only then."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    os.close(fd)
                    raise
            time.sleep(_PAUSE_S)
        else:
            os.close(fd)
            raise DeadTasksLockTimeout("the store stayed locked")
        yield
        os.close(fd)
