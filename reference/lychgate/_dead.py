"""The dead-task store: lock, append with tail repair, copy and publish (spec/DeadTasks.tla).

    {prefix}dead_tasks-0        live: lines, opened by path under the lock only (D13)
    {prefix}dead_tasks-0.tmp    staging: always a new inode, renamed over live or unlinked
    {prefix}dead_tasks.lock     lock and mark (_lock.py)

Rules of this file
  * Every change stands between SetMark and ClearMark. An unclean mark is answered by `_republish`:
    the live bytes, verbatim up to the last newline, go into a new inode that is fsynced, renamed
    and made durable by name. That is also how the store is made (D9), and how a failed fsync, a
    dead holder and a host crash are healed (D18, D19, D28, D29, D32).
  * Published means: fsync staging, rename, fsync the directory, in this order (D12).
  * A failure is definite until the first step that makes the change visible (D17).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from lychgate._errors import StorageError
from lychgate._fs import Facts
from lychgate._lines import (
    HEADER_BYTES,
    LineScanner,
    all_valid,
    end_of_last_line,
    is_valid,
    unseal,
    windows_backward,
)
from lychgate._lock import Held, StoreLock
from lychgate._names import dead_data_name, dead_lock_name, staging_name
from lychgate._op import Program, StepError, with_release, with_undo
from lychgate._ops import (
    AppendRecord,
    CloseData,
    CloseStaging,
    CreateStaging,
    FsyncData,
    FsyncDir,
    FsyncStaging,
    MatchOwner,
    OpenData,
    ReadLive,
    ReadTail,
    RenameStaging,
    StatData,
    TruncateTail,
    UnlinkStaging,
    WriteStaging,
)
from lychgate._records import id_start, id_starts, record_id
from lychgate._stats import Stats
from lychgate._steps import append_all, is_missing, read_all, read_some

R = TypeVar("R")

TAIL_WINDOW_BYTES = 4096
"""What one ReadTail reads."""

CHUNK_BYTES = 1024 * 1024
"""What one ReadLive reads."""

Visit = Callable[[bytes], bool]
"""Called with the body of every valid line in file order; False ends the scan."""


class Attempt:
    """One operation under the lock: who holds it, and whether a failure would still be definite."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.definite = True


class DeadStore:
    """One dead-task store, as one backend object uses it. All methods are programs.

    Lines come in sealed and go out as bodies: what they say is `_records.py`'s business.
    """

    def __init__(self, directory: str, prefix: str, facts: Facts, stats: Stats) -> None:
        lock_path = facts.resolve(f"{directory}/{dead_lock_name(prefix)}")
        # D27: beside the target of a symlink
        self._live = facts.resolve(f"{directory}/{dead_data_name(prefix)}")
        self._staging = staging_name(self._live)
        self._directory = self._live.rpartition("/")[0] or "/"
        self._stats = stats
        self._lock = StoreLock(lock_path, facts, stats)

    # --- what a backend calls -----------------------------------------------------------------

    async def prepare(self) -> None:
        """Make the store, or heal it, ahead of its first use (D9). Safe to interrupt and repeat."""

        async def body(attempt: Attempt) -> None:
            if not await self._lock.is_clean(attempt.held):
                await self._lock.set_mark(attempt.held)
                await self._republish()
                await self._finish(attempt)

        await self._locked(body)

    async def add(self, line: bytes) -> None:
        """Append a sealed line, or several; durable when this returns (D10, D17)."""

        async def body(attempt: Attempt) -> None:
            clean = await self._lock.is_clean(attempt.held)
            await self._lock.set_mark(attempt.held)
            if not clean:
                await self._republish()
            fd = await self._open_live()
            if fd is None:  # deleted under a clean mark: make it again
                await self._republish()
                fd = await OpenData(self._live)
            await with_release(self._append(fd, line, attempt), partial(_close_data, fd))
            await self._finish(attempt)

        await self._locked(body)

    async def remove(self, ids: frozenset[bytes]) -> int:
        """Drop every line of these ids (`id_text`); how many of them were there (D12, D26)."""
        if not ids:
            return 0
        dropping = _Dropping(ids)
        await self._remove(dropping)
        return len(dropping.found)

    async def drop(self, chosen: Callable[[bytes], bool]) -> int:
        """Drop every valid line whose body is `chosen`; how many. The steps are those of `remove`:
        what is chosen is decided under the lock, so a later record of the same id stays."""
        dropping = _Choosing(chosen)
        await self._remove(dropping)
        return dropping.count

    async def _remove(self, dropping: _Dropping) -> None:
        async def body(attempt: Attempt) -> None:
            clean = await self._lock.is_clean(attempt.held)

            async def worth_publishing() -> bool:
                if clean and not dropping.found:
                    return False  # nothing to do, and nothing undone by anybody (D19)
                await self._lock.set_mark(attempt.held)
                return True

            if not await self._stage(dropping, worth_publishing):
                await UnlinkStaging(self._staging)
                return
            attempt.definite = False
            await self._publish()
            await self._finish(attempt)
            self._stats.count("dead_lines_dropped", dropping.bad)

        await self._locked(body)

    async def scan(self, visit: Visit) -> None:
        """Show every valid line to `visit`, in file order (D8, D16)."""

        async def body(attempt: Attempt) -> None:
            fd = await self._open_live()
            if fd is not None:
                await with_release(self._visit(fd, visit), partial(_close_data, fd))

        await self._locked(body)

    async def close(self) -> None:
        """Give the lock descriptor back."""
        await self._lock.close()

    # --- under the lock -----------------------------------------------------------------------

    async def _locked(self, body: Callable[[Attempt], Program[R]]) -> R:
        attempt: Attempt | None = None

        def begin(held: Held) -> Program[R]:
            nonlocal attempt
            attempt = Attempt(held)
            return body(attempt)

        try:
            return await self._lock.hold(begin)
        except StepError as error:
            definite = attempt is None or attempt.definite
            raise StorageError(error.action, error.cause, self._live, definite) from error.cause

    async def _finish(self, attempt: Attempt) -> None:
        """Everything is durable. A mark that cannot be cleared costs the next holder a copy."""
        try:
            await self._lock.clear_mark(attempt.held)
        except StepError:
            self._stats.count("marks_not_cleared")

    async def _open_live(self) -> int | None:
        try:
            return await OpenData(self._live)
        except StepError as error:
            if is_missing(error):
                return None
            raise

    async def _append(self, fd: int, line: bytes, attempt: Attempt) -> None:
        size = (await StatData(fd)).size
        end = await self._end_of_last_line(fd, size)
        if end < size:
            await TruncateTail(fd, end)
            self._stats.count("dead_tails_truncated")
        await append_all(AppendRecord, fd, line)
        attempt.definite = False
        await FsyncData(fd)

    async def _end_of_last_line(self, fd: int, size: int) -> int:
        """Where the last complete line ends, reading backward (D11)."""
        for offset, length in windows_backward(size, TAIL_WINDOW_BYTES):
            window = await read_all(ReadTail, fd, offset, length)
            end = end_of_last_line(window)
            if end:
                return offset + end
        return 0

    async def _visit(self, fd: int, visit: Visit) -> None:
        scanner = LineScanner()
        offset, size = 0, (await StatData(fd)).size
        while offset < size:
            chunk = await read_some(ReadLive, fd, offset, min(CHUNK_BYTES, size - offset))
            offset += len(chunk)
            for text in scanner.texts(chunk):
                body = unseal(text)
                if body is None:
                    self._stats.count("dead_lines_skipped")
                elif not visit(body):
                    return
        if scanner.torn_bytes:
            self._stats.count("dead_tails_skipped")

    # --- copy and publish ---------------------------------------------------------------------

    async def _republish(self) -> None:
        """Heal by copy: whatever the last holder or the last boot left undone is done anew."""
        await self._stage(_Verbatim(), _always)
        await self._publish()
        self._stats.count("dead_files_republished")

    async def _publish(self) -> None:
        await RenameStaging(self._staging, self._live)
        await FsyncDir(self._directory)

    async def _stage(self, copier: _Copier, decide: Callable[[], Program[bool]]) -> bool:
        """Copy live into a new staging file and fsync it if `decide` then says it is wanted."""
        staging = await self._create_staging()

        async def fill() -> bool:
            live = await self._open_live()
            if live is not None:
                await with_release(
                    self._copy(live, staging, copier), partial(_close_data, live)
                )
            wanted = await decide()
            if wanted:
                await FsyncStaging(staging)
            return wanted

        async def close() -> None:
            await CloseStaging(staging)

        async def unlink() -> None:  # half a copy must not eat the space that the next add needs
            await UnlinkStaging(self._staging)

        return await with_undo(with_release(fill(), close), unlink)

    async def _create_staging(self) -> int:
        try:
            return await CreateStaging(self._staging)
        except StepError as error:
            if error.cause.errno != errno.EEXIST:
                raise
        await UnlinkStaging(self._staging)  # an orphan; its inode is not reused (D18, D29)
        self._stats.count("orphan_stagings_removed")
        return await CreateStaging(self._staging)

    async def _copy(self, live: int, staging: int, copier: _Copier) -> None:
        status = await StatData(live)
        end = status.size
        if copier.up_to_last_line:
            end = await self._end_of_last_line(live, status.size)
            if end < status.size:
                self._stats.count("dead_tails_truncated")
        await MatchOwner(staging, status.mode, status.uid, status.gid)
        offset = 0
        while offset < end:
            chunk = await read_some(ReadLive, live, offset, min(CHUNK_BYTES, end - offset))
            offset += len(chunk)
            await append_all(WriteStaging, staging, copier.feed(chunk))


async def _close_data(fd: int) -> None:
    await CloseData(fd)


async def _always() -> bool:
    return True


class _Copier(Protocol):
    """What a copy keeps: `feed` gives the bytes to write for the bytes read."""

    up_to_last_line: bool

    def feed(self, chunk: bytes) -> bytes: ...


class _Verbatim:
    """Every complete line as it is, bad ones included (D11)."""

    up_to_last_line = True

    def feed(self, chunk: bytes) -> bytes:
        return chunk


class _Dropping:
    """Every valid line but those of the given ids (D12). A torn tail never completes a line."""

    up_to_last_line = False

    def __init__(self, ids: frozenset[bytes]) -> None:
        self._ids = ids
        self._starts = {id_start(task_id) for task_id in ids}
        self._scanner = LineScanner()
        self.found: set[bytes] = set()
        self.bad = 0

    def feed(self, chunk: bytes) -> bytes:
        texts = self._scanner.texts(chunk)
        valid = texts if all_valid(texts) else [text for text in texts if is_valid(text)]
        self.bad += len(texts) - len(valid)
        return b"\n".join([*self._kept(valid), b""])

    def _kept(self, valid: list[bytes]) -> list[bytes]:
        if self._starts.isdisjoint(id_starts(valid)):
            return valid
        return [text for text in valid if not self._drops(text)]

    def _drops(self, text: bytes) -> bool:
        task_id = record_id(text[HEADER_BYTES:])
        if task_id not in self._ids:
            return False
        self.found.add(task_id)
        return True


class _Choosing(_Dropping):
    """The same with any choice among the valid lines."""

    def __init__(self, chosen: Callable[[bytes], bool]) -> None:
        super().__init__(frozenset())
        self._chosen = chosen
        self.count = 0

    def _kept(self, valid: list[bytes]) -> list[bytes]:
        return [text for text in valid if not self._drops(text)]

    def _drops(self, text: bytes) -> bool:
        body = text[HEADER_BYTES:]
        if not self._chosen(body):
            return False
        self.count += 1
        self.found.add(record_id(body) or b"")
        return True
