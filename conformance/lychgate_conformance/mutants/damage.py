"""Mutants of the line disk and of the disk backend: damaged files and locks."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lychgate import DeadTask, DeadTasksLockTimeout, Disk
from lychgate_conformance._layout import body_of_line, is_wal, seal
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._lines import LineDisk


@mutant("junk-stops-reading", "L0-DMG-001 L0-DMG-002")
class JunkStopsReading(LineDisk):
    """Reads up to the first line that is not valid."""

    def split(self, content: bytes) -> list[bytes]:
        good = []
        for line in super().split(content):
            if body_of_line(line[:-1]) is None:
                break
            good.append(line)
        return good


@mutant("trusts-crc", "L0-DMG-002")
class TrustsCrc(LineDisk):
    """Does not look at the CRC of a line."""

    def body(self, line: bytes) -> bytes | None:
        return line[9:-1]


@mutant("reads-unterminated", "L0-DMG-003 L0-DMG-005 L0-DMG-006 L0-DMG-014")
class ReadsUnterminated(LineDisk):
    """Takes a last line without its newline for a record."""

    def split(self, content: bytes) -> list[bytes]:
        rest = content[content.rfind(b"\n") + 1 :]
        return [*super().split(content), *([rest + b"\n"] if rest else [])]


@mutant("no-tail-repair", "L0-DMG-004 L0-DMG-005 L0-DMG-007 L0-DMG-008 L0-DMG-009")
class NoTailRepair(LineDisk):
    """Appends to whatever is there."""

    def repaired(self, content: bytes) -> bytes:
        return content


@mutant("ends-torn-lines", "L0-DMG-006")
class EndsTornLines(LineDisk):
    """Puts the missing newline behind a torn line, which brings a whole one back."""

    def repaired(self, content: bytes) -> bytes:
        return content if content.endswith(b"\n") or not content else content + b"\n"


@mutant("repairs-one-block", "L0-DMG-008 L0-DMG-009")
class RepairsOneBlock(LineDisk):
    """Looks for the last newline in the last block, and gives all up when it is not there."""

    def repaired(self, content: bytes) -> bytes:
        return super().repaired(content) if b"\n" in content[-4096:] else b""


@mutant("nul-ends-the-file", "L0-DMG-010")
class NulEndsTheFile(LineDisk):
    """Takes the first NUL for the end of the file."""

    def read(self) -> bytes:
        return super().read().partition(b"\0")[0]


@mutant("damaged-hides", "L0-DMG-011")
class DamagedHides(LineDisk):
    """Looks no further when the newest line of an id is damaged."""

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        lines = [it for it in self.read().splitlines() if f'"{task_id}"'.encode() in it]
        return self.parse(lines[-1] + b"\n") if lines and len(lines[-1]) > 100 else None


@mutant("cleans-while-adding", "L0-DMG-012")
class CleansWhileAdding(LineDisk):
    """Drops damaged lines when it adds a record."""

    def repaired(self, content: bytes) -> bytes:
        lines = self.split(super().repaired(content))
        return b"".join(it for it in lines if self.parse(it) is not None)


@mutant("keeps-damage", "L0-DMG-013")
class KeepsDamage(LineDisk):
    """Copies damaged lines along in a removal."""

    def survives(self, line: bytes, task_ids: frozenset[str]) -> bool:
        dead = self.parse(line)
        return dead is None or dead.task_id not in task_ids


@mutant("counts-no-damage", "L0-DMG-015")
class CountsNoDamage(LineDisk):
    """Says nothing of what it skipped and repaired."""

    def stats(self) -> dict[str, Any]:
        return {}


@mutant("publishes-orphans", "L0-DMG-016")
class PublishesOrphans(LineDisk):
    """Finishes the rename of a staging file that somebody left."""

    def before_open(self) -> None:
        with suppress(FileNotFoundError):
            os.rename(f"{self.data}.tmp", self.data)


@mutant("empty-is-damaged", "L0-DMG-017")
class EmptyIsDamaged(LineDisk):
    """Refuses to open an empty data file."""

    def before_open(self) -> None:
        if os.path.exists(self.data) and os.path.getsize(self.data) == 0:
            raise OSError("the data file is damaged: it is empty")


@mutant("clears-the-way", "L0-DMG-018")
class ClearsTheWay(LineDisk):
    """Removes a directory that stands where its file belongs."""

    def before_open(self) -> None:
        with suppress(OSError):
            os.rmdir(self.data)


@mutant("reads-whole-files", "L1-MEM-001 L1-MEM-002")
class ReadsWholeFiles(LineDisk):
    """Reads the whole data file into memory, whatever is asked."""


@mutant("drops-undecodable-dead", "L0-DMG-025")
class DropsUndecodableDead(LineDisk):
    """Does not list a dead task whose context it cannot decode."""

    def parse(self, line: bytes) -> DeadTask | None:
        return None if b'"codec"' in line else super().parse(line)


# --- locks ------------------------------------------------------------------------------------


@mutant("no-lock", "L1-LOCK-001 L1-LOCK-003")
class NoLock(LineDisk):
    """Takes no lock."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield


@mutant("lock-kept-open", "L1-LOCK-002")
class LockKeptOpen(LineDisk):
    """Opens the lock file once and never looks whether it is still there."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        if not hasattr(self, "_fd"):
            self._fd = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)


@mutant("lock-by-existence", "L1-KILL-010 L1-LOCK-003")
class LockByExistence(LineDisk):
    """Locks by making a file, which a killed process leaves behind."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        for _ in range(300):
            try:
                os.close(os.open(f"{self.lock}.held", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(0.005)
        else:
            raise DeadTasksLockTimeout("the dead-task store stayed locked")
        try:
            yield
            time.sleep(0.01)
        finally:
            os.unlink(f"{self.lock}.held")


@mutant("gives-up-at-once", "L1-LOCK-003")
class GivesUpAtOnce(LineDisk):
    """Does not wait for a lock."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        with open(self.lock, "rb+") as file:
            if not self._try(file.fileno()):
                raise DeadTasksLockTimeout("the dead-task store is locked")
            yield


@mutant("ghost-inode", "L1-RACE-008 L1-RACE-002")
class GhostInode(LineDisk):
    """Keeps the data file open, and so reads and writes one that a removal has replaced."""

    def read(self) -> bytes:
        if not hasattr(self, "_kept"):
            self._kept = open(self.data, "rb", buffering=0)
        return os.pread(self._kept.fileno(), 1 << 24, 0)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        count = super().remove_dead_tasks(task_ids)
        if count:
            self._kept.close()
            del self._kept
        return count


# --- tasks files ------------------------------------------------------------------------------


class Rewrites(Disk):
    """Does something to the tasks files that nobody owns before they are opened."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        self.directory, self.prefix = os.path.abspath(path), prefix
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            if is_wal(name, prefix):
                self.look(os.path.join(path, name))
        super().__init__(path, prefix, fsync_frequency)

    def look(self, path: str) -> None:
        """Called for every tasks file; by default rewrites those that are regular and free."""
        if not os.path.isfile(path) or os.path.islink(path):
            return
        with open(path, "rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            content = file.read()
            changed = self.rewrite(content)
            if changed != content:
                file.truncate(0)
                file.seek(0)
                file.write(changed)
                file.flush()

    def rewrite(self, content: bytes) -> bytes:
        return content


def _lines(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


@mutant("replay-stops-at-damage", "L0-DMG-021")
class ReplayStopsAtDamage(Rewrites):
    """Replays a tasks file up to the first damaged line."""

    def rewrite(self, content: bytes) -> bytes:
        good = b""
        for line in _lines(content):
            if body_of_line(line[:-1]) is None:
                break
            good += line
        return good


@mutant("replay-trusts-crc", "L0-DMG-021")
class ReplayTrustsCrc(Rewrites):
    """Does not look at the CRC of a line of a tasks file."""

    def rewrite(self, content: bytes) -> bytes:
        return b"".join(seal(line[9:-1]) for line in _lines(content) if line.endswith(b"\n"))


@mutant("torn-file-is-lost", "L0-DMG-022 L0-DMG-023")
class TornFileIsLost(Rewrites):
    """Throws a tasks file away when its last line is torn."""

    def rewrite(self, content: bytes) -> bytes:
        return content if content.endswith(b"\n") else b""


@mutant("drops-undecodable-tasks", "L0-DMG-024")
class DropsUndecodableTasks(Rewrites):
    """Drops tasks that it cannot decode."""

    def rewrite(self, content: bytes) -> bytes:
        lines = _lines(content)
        return b"".join(it for it in lines if not re.search(rb":(=cipher|\{not)", it))


@mutant("directories-are-fatal", "L0-DMG-019")
class DirectoriesAreFatal(Rewrites):
    """Cannot start beside a directory that is named like a tasks file."""

    def look(self, path: str) -> None:
        if os.path.isdir(path):
            raise IsADirectoryError(path)


@mutant("junk-is-fatal", "L0-DMG-020")
class JunkIsFatal(Rewrites):
    """Cannot start beside a tasks file that is no text."""

    def rewrite(self, content: bytes) -> bytes:
        content.decode("utf-8")
        return content


@mutant("special-files-are-fatal", "L0-DMG-026")
class SpecialFilesAreFatal(Rewrites):
    """Cannot start beside a dangling symlink that is named like a tasks file."""

    def look(self, path: str) -> None:
        os.stat(path)
