"""What an observer sees of the dead-task store: three files as cells, calls as the spec names them.

A record is a line of two cells, its front `r<` and its back `r>`, as in spec/FileSystem.tla; `r` is
its id. A front alone is the beginning of a line without its newline.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from lychgate import _lock
from lychgate._lines import unseal
from lychgate._lock import clean_mark
from lychgate._names import dead_data_name, dead_lock_name, staging_name
from lychgate._op import Op
from lychgate._ops import (
    AppendRecord,
    CheckLock,
    CreateStaging,
    LockTry,
    OpenData,
    ReadLive,
    ReadMark,
    ReadTail,
    Sleep,
    StatData,
    TruncateTail,
    WriteStaging,
)
from lychgate._records import record_id

from lychgate_tools.trace.format import Seen
from lychgate_tools.trace.recorder import Described
from lychgate_tools.walk.cells import Cells

Reader = Callable[[str], bytes | None]
"""The bytes of a file by the spec's name for it, None if there is no such file."""

ToCells = Callable[[bytes], tuple[str, ...]]
_FRONT = re.compile(rb'.*"task_id":"([^"\\]*)"', re.S)
_UNKNOWN = "!"  # bytes that are no part of any record: no cell of the spec


@lru_cache(maxsize=4096)
def cells_of_lines(data: bytes) -> tuple[str, ...]:
    """The cells of lines of any length, as the public API writes them."""
    found: list[str] = []
    *lines, rest = data.split(b"\n")
    for line in lines:
        body = unseal(line)
        name = None if body is None else record_id(body)
        found += [_UNKNOWN] if name is None else [f"{name.decode()}<", f"{name.decode()}>"]
    if rest:
        front = _FRONT.match(rest)
        found.append(_UNKNOWN if front is None else f"{front[1].decode()}<")
    return tuple(found)


def cells_of_size(records: list[str]) -> ToCells:
    """The cells of records of exactly two times CELL bytes (walk/cells.py): parts of them too."""
    return lru_cache(maxsize=4096)(Cells(records).to_cells)


def reader_of(directory: str, prefix: str) -> Reader:
    """Reads the files of a store on the real file system."""
    names = {
        "live": dead_data_name(prefix),
        "tmp": staging_name(dead_data_name(prefix)),
        "lock": dead_lock_name(prefix),
    }

    def read(name: str) -> bytes | None:
        try:
            return Path(directory, names[name]).read_bytes()
        except FileNotFoundError:
            return None

    return read


class DeadEyes:
    """Reads the files through `read` (None: no such file), under the boot id of now."""

    def __init__(
        self, read: Reader, cells: ToCells, boot: Callable[[], str]
    ) -> None:
        self._read = read
        self._cells = cells
        self._boot = boot

    def seen(self) -> Seen:
        live, staging, mark = self._read("live"), self._read("tmp"), self._read("lock")
        return {
            "live": None if live is None else self._cells(live),
            "tmp": None if staging is None else self._cells(staging),
            "lock": None if mark is None else (self._mark(mark),),
        }

    def _mark(self, data: object) -> str:
        return "clean" if data == clean_mark(self._boot()) else "dirty"

    def describe(
        self, worker: str, op: Op[Any], result: object, error: BaseException | None
    ) -> Described | None:
        kind = type(op)
        if op.action not in DEAD_ACTIONS or (kind is Sleep and not _waits_for_lock(op)):
            return None
        if isinstance(error, OSError):
            if kind is OpenData and error.errno == errno.ENOENT:
                return Described({}, False)
            if kind is CreateStaging and error.errno == errno.EEXIST:
                return Described({}, False)
            return Described({}, None, errno.errorcode.get(error.errno or 0, "error"))
        if error is not None:
            return Described({}, None, type(error).__name__)
        return self._plain(op, result)

    def _plain(self, op: Op[Any], result: object) -> Described:
        if isinstance(op, (AppendRecord, WriteStaging)):
            return Described(
                {"data": self._cells(op.data)}, None, "" if result == len(op.data) else "short"
            )
        if isinstance(op, (LockTry, CheckLock)):
            return Described({}, bool(result))
        if isinstance(op, (OpenData, CreateStaging)):
            return Described({}, True)
        if isinstance(op, ReadMark):
            return Described({}, self._mark(result))
        if isinstance(op, ReadTail):
            assert isinstance(result, bytes)
            return Described({}, not result.endswith(b"\n"))
        if isinstance(op, ReadLive):
            assert isinstance(result, bytes)
            return Described({}, self._cells(result))
        if isinstance(op, StatData):
            return Described({}, self._length(getattr(result, "size")))
        if isinstance(op, TruncateTail):
            return Described({"size": self._length(op.size)})
        return Described({})

    def _length(self, size: int) -> int:
        """A size in cells; -1 if that is not where a cell of the live file ends."""
        live = self._read("live") or b""
        return len(self._cells(live[:size])) if size <= len(live) else -1


def _waits_for_lock(op: Op[Any]) -> bool:
    """Not every Sleep is the lock's: the fibers of a WAL take turns, more quickly."""
    return isinstance(op, Sleep) and op.seconds == _lock.LOCK_SLEEP_S


DEAD_ACTIONS = frozenset(
    (
        "OpenLock", "LockTry", "CheckLock", "ReadMark", "SetMark", "ClearMark", "Unlock",
        "CloseLock", "Sleep", "OpenData", "StatData", "ReadTail", "TruncateTail", "AppendRecord",
        "FsyncData", "CloseData", "ReadLive", "CreateStaging", "UnlinkStaging", "MatchOwner",
        "WriteStaging", "FsyncStaging", "CloseStaging", "RenameStaging", "FsyncDir",
    )
)  # fmt: skip
"""The engine's steps that DeadTasks.tla and Lock.tla model."""
