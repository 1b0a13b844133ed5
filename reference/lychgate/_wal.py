"""The tasks WAL: one file per process, merged at start, rotated when large (spec/Wal.tla).

    {prefix}0-{date}-{process id}-{random}    lines: add and rem records (`_records.py`)

Rules of this file
  * A process appends only to a file that it created (W2). Files that others left are copied into it
    and unlinked, never appended to: behind a failed fsync their cache may show what the disk lacks,
    and behind a crash old bytes may lie beyond their end. A new inode has neither.
  * Acknowledged means that the kernel has the bytes (W8). Durable means that a later fsync
    returned; `fsync_frequency` says how much later (W3, W9).
  * A file is unlinked while it is locked, and unlocked by closing (W11). The copy is durable before
    the unlink, and the unlink is durable before anything else is acknowledged (W5).
  * After a failed fsync nothing is acknowledged until every live record stands in a new file that
    is durable (W9).
  * The fibers of one process take turns by a flag in memory. It is the process's: a forked child
    starts without file and flag (W13).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from lychgate._errors import ClosedError, StorageError
from lychgate._fs import Facts
from lychgate._ids import TaskIds
from lychgate._names import is_wal_name, wal_name
from lychgate._op import Program, StepError, with_release, with_undo
from lychgate._ops import (
    AppendWal,
    CopyWal,
    CreateWal,
    FsyncWal,
    FsyncWalDir,
    ListWals,
    OwnCheck,
    OwnTry,
    Sleep,
    TruncateWal,
    UnlinkWal,
)
from lychgate._records import wal_remove_line
from lychgate._stats import Stats
from lychgate._steps import append_all, is_missing
from lychgate._wal_file import (
    Own,
    Replay,
    Slot,
    WalFile,
    claim_wal,
    close_wal,
    read_run,
    replay_wal,
    runs,
)

R = TypeVar("R")

ROTATE_BYTES = 32 * 1024 * 1024
"""The size at which a file is rotated the first time (W5)."""

_GROWTH = 1.5  # of the limit, where the live records alone would reach it (W5)
_TURN_S = 0.001  # between two looks at the flag of this process's fibers
_CREATE_ATTEMPTS = 100  # new names before giving up; each has 64 random bits

Visit = Callable[[bytes], None]
"""Called with each live record's line, newline included."""


class Wal:
    """The WAL of one backend object. All methods are programs."""

    def __init__(
        self,
        directory: str,
        prefix: str,
        fsync_frequency: float,
        facts: Facts,
        ids: TaskIds,
        stats: Stats,
    ) -> None:
        self._directory = directory
        self._prefix = prefix
        self._frequency = fsync_frequency
        self._facts = facts
        self._ids = ids
        self._stats = stats
        self._by_process: dict[int, Own] = {}

    # --- what a backend calls -----------------------------------------------------------------

    async def start(self) -> None:
        """Take over every file that no living process owns (W2)."""

        async def body(own: Own) -> None:
            for name in await ListWals(self._directory):
                if is_wal_name(self._prefix, name):
                    await self._take_over(own, f"{self._directory}/{name}")
            await self._settle(own)

        await self._in_turn(body)

    async def add(self, task_id: str, line: bytes) -> None:
        """Append an add record; a record of the same id is replaced (U2)."""

        async def body(own: Own) -> None:
            file = await self._writable(own)
            await self._append(own, file, task_id, line, adds=True)

        await self._in_turn(body)

    async def remove(self, task_id: str) -> None:
        """Append a remove record, if the task is live here; else change nothing (W10)."""

        async def body(own: Own) -> None:
            if own.file is not None and task_id in own.file.live:
                file = await self._writable(own)
                await self._append(own, file, task_id, wal_remove_line(task_id), adds=False)
            elif own.file is not None and (own.file.suspect or own.unsettled):
                await self._writable(own)  # this may repeat a remove whose fsync failed (W9)
            elif self._late(own, self._facts.now()):
                await self._make_durable(own)

        await self._in_turn(body)

    async def pending(self, visit: Visit) -> None:
        """Show every live record of this process, in file order; changes nothing (W7)."""

        async def body(own: Own) -> None:
            if own.file is None:
                return
            file = own.file
            if file.dirty and not file.suspect and self._late(own, self._facts.now()):
                try:
                    await self._fsync(own, file)
                except StorageError:
                    pass  # no reader's business; whoever is promised something moves the file
            for run in runs(file.on_disk()):
                data = await read_run(file.fd, run)
                for _, slot in run.members:
                    start = slot.offset - run.offset
                    visit(data[start : start + slot.length])
            for line in file.unsynced.values():
                visit(line)

        await self._in_turn(body)

    async def tick(self, now: float) -> float | None:
        """fsync the batch when it is due at `now`; when the next one is due, or None (D1)."""

        async def body(own: Own) -> float | None:
            if self._late(own, now) or own.unsettled:
                await self._make_durable(own)
            return own.due

        return await self._in_turn(body)

    def _late(self, own: Own, now: float) -> bool:
        """Whether the batch is due, or the clock was set back: then nobody knows (D1)."""
        return own.due is not None and not own.due - self._frequency <= now < own.due

    async def sync(self) -> None:
        """Make everything acknowledged so far durable."""
        await self._in_turn(self._make_durable)

    async def close(self) -> None:
        """Make everything durable and let the file go: unlinked when nothing in it is live."""

        async def body(own: Own) -> None:
            own.closed = True
            await with_release(self._make_durable(own), partial(self._let_go, own))

        await self._in_turn(body, closing=True)

    # --- taking turns -------------------------------------------------------------------------

    async def _in_turn(self, body: Callable[[Own], Program[R]], closing: bool = False) -> R:
        own, fiber = self._by_process.setdefault(self._facts.pid(), Own(ROTATE_BYTES)), object()
        try:
            while not own.flag.take(fiber):
                await Sleep(_TURN_S)
            if own.closed and not closing:  # while this fiber waited
                raise ClosedError("this backend was closed; open a new one")
            return await body(own)
        except StepError as error:
            raise self._error(error, definite=True) from error.cause
        finally:
            if fiber in own.flag:
                own.flag.remove(fiber)

    def _error(self, error: StepError, definite: bool) -> StorageError:
        path = error.cause.filename or self._directory
        return StorageError(error.action, error.cause, str(path), definite)

    # --- the own file -------------------------------------------------------------------------

    async def _writable(self, own: Own) -> WalFile:
        """The own file, with nothing unsettled behind it: fit for an acknowledgement."""
        file = await self._sound(own)
        await self._settle(own)
        return file

    async def _sound(self, own: Own) -> WalFile:
        """The own file; made, or made anew, if need be."""
        if own.file is None:
            own.file = await self._create()
        elif own.file.suspect:
            await self._rotate(own)
        return own.file

    async def _create(self) -> WalFile:
        """A new, locked file whose name is durable (W2)."""
        for _ in range(_CREATE_ATTEMPTS):
            date = datetime.fromtimestamp(self._facts.now(), UTC).strftime("%Y%m%d")
            name = wal_name(self._prefix, date, self._facts.pid(), self._facts.random(8))
            path = f"{self._directory}/{name}"
            file = WalFile(path, await CreateWal(path))
            if await with_undo(self._lock_new(file), partial(self._discard, file)):
                return file
            await close_wal(file.fd)  # somebody took it for a file left behind; it is theirs
        raise StepError("CreateWal", OSError(errno.EAGAIN, "no new WAL file could be locked"))

    async def _lock_new(self, file: WalFile) -> bool:
        if not await OwnTry(file.fd) or not await OwnCheck(file.fd, file.path):
            return False
        await FsyncWalDir(self._directory)
        return True

    async def _append(
        self, own: Own, file: WalFile, task_id: str, line: bytes, adds: bool
    ) -> None:
        await self._write(file, AppendWal, line)
        if adds:
            file.added(task_id, len(line), line)
        else:
            file.removed(task_id, len(line))
        now = self._facts.now()
        if own.due is None or now < own.due - self._frequency:  # the clock went backward
            own.due = now + self._frequency
        if now >= own.due:
            await self._fsync(own, file)
        if file.size > own.limit:
            await self._rotate_by_size(own)

    async def _write(self, file: WalFile, step: type[AppendWal | CopyWal], data: bytes) -> None:
        """Append `data` whole, or leave the file as it was (W6)."""
        try:
            await append_all(step, file.fd, data)
        except GeneratorExit:
            raise
        except StepError:
            self._stats.count("wal_appends_failed")
            try:
                await TruncateWal(file.fd, file.size)
            except StepError:
                file.suspect = True
            raise
        except BaseException:  # interrupted: what the kernel has taken is not known
            file.suspect = True
            raise

    async def _fsync(self, own: Own, file: WalFile) -> None:
        try:
            await FsyncWal(file.fd)
        except GeneratorExit:
            raise
        except BaseException as error:  # a cancelled fsync may have failed unseen
            file.suspect = True
            self._stats.count("wal_fsyncs_failed")
            if isinstance(error, StepError):
                raise self._error(error, definite=False) from error.cause
            raise
        file.synced()
        own.due = None

    async def _make_durable(self, own: Own) -> None:
        if own.file is not None and own.file.suspect:
            await self._rotate(own)
        await self._settle(own)
        if own.file is not None and own.file.dirty:
            await self._fsync(own, own.file)
        own.due = None

    async def _let_go(self, own: Own) -> None:
        file, own.file, own.due = own.file, None, None
        left, own.retired = own.retired, []
        for old in left:  # could not be unlinked: the next start merges them again
            await close_wal(old.fd)
        if file is not None and (file.live or file.suspect):
            await close_wal(file.fd)
        elif file is not None:
            await self._discard(file)

    async def _discard(self, file: WalFile) -> None:
        """Unlink, then close: in this order, or another process could take the file over (W11)."""
        try:
            await UnlinkWal(file.path)
        except StepError:
            self._stats.count("wal_unlinks_failed")  # the next start finds nothing new in it
        await close_wal(file.fd)

    # --- replacing files ----------------------------------------------------------------------

    async def _rotate_by_size(self, own: Own) -> None:
        """The operation that made the file too large is done; a failure here only puts this off."""
        try:
            await self._rotate(own)
            await self._settle(own)
            own.limit = ROTATE_BYTES
        except StepError:
            self._stats.count("wal_rotations_failed")
        assert own.file is not None
        while own.file.size * 2 > own.limit:
            own.limit *= _GROWTH

    async def _rotate(self, own: Own) -> None:
        """Copy the live records into a new file; from then on that is the own file (W5)."""
        old = own.file
        assert old is not None
        await self._unlink_retired(own)
        new = await self._create()

        async def retire() -> None:  # what it holds must not come back once more is acknowledged
            own.retired.append(new)
            await self._unlink_retired(own)

        async def fill() -> None:
            await self._copy(old.fd, old.on_disk(), new)
            for task_id, line in old.unsynced.items():
                await self._write(new, CopyWal, line)
                new.added(task_id, len(line), None)
            await FsyncWal(new.fd)

        await with_undo(fill(), retire)
        new.synced()
        own.file, own.due = new, None
        own.retired.append(old)
        self._stats.count("wal_rotations")

    async def _take_over(self, own: Own, path: str) -> None:
        """Copy what is live in another's file into the own one, and retire it (W2, W5)."""
        try:
            fd = await claim_wal(path)
            if fd is None:
                return
            let_go = partial(close_wal, fd)
            replay = await with_undo(replay_wal(fd), let_go)
        except StepError:
            self._stats.count("wal_files_unreadable")  # left for a better day (W14)
            return
        await with_undo(self._merge(own, fd, replay), let_go)
        own.retired.append(WalFile(path, fd))
        self._stats.count("wal_files_merged")
        await self._unlink_retired(own)

    async def _merge(self, own: Own, fd: int, replay: Replay) -> None:
        for task_id in replay.ids:
            self._ids.observe(task_id)
        self._stats.count("wal_lines_skipped", replay.bad)
        if replay.live:
            target = await self._sound(own)
            await self._copy(fd, iter(replay.live.items()), target)
            await self._fsync(own, target)

    async def _settle(self, own: Own) -> None:
        """Make the end of replaced files durable; before that nothing is acknowledged (W5)."""
        await self._unlink_retired(own)
        if own.names_unsynced:
            await FsyncWalDir(self._directory)
            own.names_unsynced = False

    async def _unlink_retired(self, own: Own) -> None:
        while own.retired:
            file = own.retired[-1]
            try:
                await UnlinkWal(file.path)
            except StepError as error:
                if not is_missing(error):
                    raise
            own.retired.pop()
            own.names_unsynced = True
            await close_wal(file.fd)

    # --- reading ------------------------------------------------------------------------------

    async def _copy(
        self, source: int, slots: Iterator[tuple[str, Slot]], target: WalFile
    ) -> None:
        for run in runs(slots):
            data = await read_run(source, run)
            await self._write(target, CopyWal, data)
            for task_id, slot in run.members:
                target.added(task_id, slot.length, None)
