"""One WAL file: where its live records lie, what no fsync has covered yet, and how it is read.

What is appended to it, and when it is made durable or replaced, is `_wal.py`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from lychgate._flag import Flag
from lychgate._lines import Line, LineScanner
from lychgate._op import StepError, with_undo
from lychgate._ops import ClaimCheck, ClaimOpen, ClaimTry, CloseWal, ReadWal
from lychgate._records import WalAdd, WalRemove, parse_wal
from lychgate._steps import is_missing, read_all

BATCH_BYTES = 1024 * 1024
"""What one ReadWal reads and one CopyWal writes."""


class Slot(NamedTuple):
    """A line's place in a file, in bytes; the newline is counted."""

    offset: int
    length: int


@dataclass(slots=True)
class Run:
    """Live records that lie side by side, and are read and written in one piece."""

    offset: int
    length: int
    members: list[tuple[str, Slot]]


@dataclass(slots=True)
class WalFile:
    """A file under this process's lock.

    `size` is where the last whole record ends: bytes beyond it belong to an append that failed.
    `unsynced` keeps the lines of live tasks until an fsync has succeeded: after a failed one,
    reading the file back proves nothing (W9). `suspect` says that such a failure happened.
    """

    path: str
    fd: int
    size: int = 0
    live: dict[str, Slot] = field(default_factory=dict)
    unsynced: dict[str, bytes] = field(default_factory=dict)
    dirty: bool = False  # bytes were written since the last successful fsync
    suspect: bool = False

    def added(self, task_id: str, length: int, line: bytes | None) -> None:
        """Note an add record that the kernel has taken; `line` if this is its only copy."""
        self._forget(task_id)
        self.live[task_id] = Slot(self.size, length)
        if line is not None:
            self.unsynced[task_id] = line
        self.size += length
        self.dirty = True

    def removed(self, task_id: str, length: int) -> None:
        """Note a remove record that the kernel has taken."""
        self._forget(task_id)
        self.size += length
        self.dirty = True

    def _forget(self, task_id: str) -> None:
        self.live.pop(task_id, None)
        self.unsynced.pop(task_id, None)

    def synced(self) -> None:
        """Note an fsync that succeeded."""
        self.unsynced.clear()
        self.dirty = False

    def on_disk(self) -> Iterator[tuple[str, Slot]]:
        """The live records that an fsync has covered, in file order."""
        return ((key, slot) for key, slot in self.live.items() if key not in self.unsynced)


class Own:
    """What one process has of the WAL. `limit` is the size at which its file is rotated."""

    def __init__(self, limit: float) -> None:
        self.flag = Flag()
        self.file: WalFile | None = None
        self.retired: list[WalFile] = []  # replaced by `file`, still to be unlinked
        self.names_unsynced = False  # an unlink that is not durable yet
        self.due: float | None = None  # when the batch must be fsynced
        self.limit = limit
        self.closed = False

    @property
    def unsettled(self) -> bool:
        return bool(self.retired) or self.names_unsynced


class Replay:
    """What a file's lines amount to: the last record of an id decides, inside this file (W12)."""

    def __init__(self) -> None:
        self.live: dict[str, Slot] = {}
        self.ids: set[str] = set()
        self.bad = 0

    def take(self, line: Line) -> None:
        record = None if line.body is None else parse_wal(line.body)
        if record is None:
            self.bad += 1
            return
        self.ids.add(record.task_id)
        self.live.pop(record.task_id, None)
        if isinstance(record, WalAdd):
            self.live[record.task_id] = Slot(line.offset, line.length)
        else:
            assert isinstance(record, WalRemove)


def runs(slots: Iterable[tuple[str, Slot]]) -> Iterator[Run]:
    """Join neighbours into runs of at most BATCH_BYTES (a longer record is a run of its own).

    `slots` are in file order.
    """
    run: Run | None = None
    for task_id, slot in slots:
        if run is not None and (
            run.offset + run.length == slot.offset and run.length + slot.length <= BATCH_BYTES
        ):
            run.length += slot.length
            run.members.append((task_id, slot))
            continue
        if run is not None:
            yield run
        run = Run(slot.offset, slot.length, [(task_id, slot)])
    if run is not None:
        yield run


async def close_wal(fd: int) -> None:
    """A close(2) that fails has closed the descriptor, and freed its lock, all the same."""
    try:
        await CloseWal(fd)
    except StepError:
        pass


async def claim_wal(path: str) -> int | None:
    """The descriptor of a file that nobody owns, locked; None for any other (W11)."""
    try:
        fd = await ClaimOpen(path)
    except StepError as error:
        if is_missing(error):
            return None
        raise

    async def attempt() -> bool:
        return await ClaimTry(fd) and await ClaimCheck(fd, path)

    if await with_undo(attempt(), partial(close_wal, fd)):
        return fd
    await close_wal(fd)
    return None


async def replay_wal(fd: int) -> Replay:
    """What the lines of a file amount to."""
    replay, scanner, offset = Replay(), LineScanner(), 0
    while chunk := await ReadWal(fd, offset, BATCH_BYTES):
        offset += len(chunk)
        for line in scanner.feed(chunk):
            replay.take(line)
    replay.bad += scanner.torn_bytes > 0
    return replay


async def read_run(fd: int, run: Run) -> bytes:
    """The lines of a run."""
    return await read_all(ReadWal, fd, run.offset, run.length)
