"""What an observer sees of the tasks WAL: the files of the directory as cells, by label.

A label is `f1`, `f2`, … in the order in which names were first seen. A record is a line of two
cells; `+t` adds the task t and `-t` removes it, as in spec/Wal.tla.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lychgate._lines import unseal
from lychgate._names import is_wal_name
from lychgate._op import Op
from lychgate._ops import (
    AppendWal,
    ClaimCheck,
    ClaimOpen,
    ClaimTry,
    CopyWal,
    CreateWal,
    ListWals,
    OwnCheck,
    OwnTry,
    ReadWal,
    TruncateWal,
)
from lychgate._records import WalAdd, parse_wal

from lychgate_tools.trace.format import Seen
from lychgate_tools.trace.recorder import Described

Directory = Callable[[], Mapping[str, bytes]]
"""The files of the store's directory by name, with their bytes."""

_FRONT = re.compile(rb"[0-9a-f]{8}:(add|rem):(\w+)")
_UNKNOWN = "!"  # bytes that are no part of any record: no cell of the spec


@lru_cache(maxsize=4096)
def cells_of(data: bytes) -> tuple[str, ...]:
    """The cells of lines, and of a line's front."""
    found: list[str] = []
    *lines, rest = data.split(b"\n")
    for line in lines:
        body = unseal(line)
        record = None if body is None else parse_wal(body)
        if record is None:
            found.append(_UNKNOWN)
            continue
        name = f"{'+' if isinstance(record, WalAdd) else '-'}{record.task_id}"
        found += [f"{name}<", f"{name}>"]
    if rest:
        front = _FRONT.match(rest)
        sign = "+" if front is not None and front[1] == b"add" else "-"
        found.append(_UNKNOWN if front is None else f"{sign}{front[2].decode()}<")
    return tuple(found)


def directory_of(path: str) -> Directory:
    """The files of a directory on the real file system."""

    def look() -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for one in sorted(Path(path).iterdir()):
            try:
                found[one.name] = one.read_bytes()
            except FileNotFoundError:
                continue
        return found

    return look


class Names:
    """What a trace calls a file: its name. Good for a process that is one of several."""

    def of(self, name: str) -> str:
        return name


class Labels(Names):
    """Names to labels."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._found.setdefault(name, f"f{len(self._found) + 1}")


class WalEyes:
    """Looks at the WAL files of a prefix."""

    def __init__(self, look: Directory, prefix: str, labels: Names) -> None:
        self._look = look
        self._prefix = prefix
        self._labels = labels
        self._short: dict[str, bytes] = {}  # what a worker was to write, when a part was written

    def seen(self) -> Seen:
        return {
            self._labels.of(name): cells_of(data)
            for name, data in self._look().items()
            if is_wal_name(self._prefix, name)
        }

    def describe(
        self, worker: str, op: Op[Any], result: object, error: BaseException | None
    ) -> Described | None:
        if op.action not in WAL_ACTIONS:
            return None
        args = self._args(worker, op)
        if isinstance(op, (AppendWal, CopyWal)) and error is None and result != len(op.data):
            self._short[worker] = op.data
        if isinstance(error, OSError):
            if isinstance(op, ClaimOpen) and error.errno == errno.ENOENT:
                return Described(args, False)
            return Described(args, None, errno.errorcode.get(error.errno or 0, "error"))
        if error is not None:
            return Described(args, None, type(error).__name__)
        if isinstance(op, (AppendWal, CopyWal)) and result != len(op.data):
            return Described(args, None, "short")
        return Described(args, self._result(op, result))

    def _args(self, worker: str, op: Op[Any]) -> dict[str, Any]:
        if isinstance(op, (ClaimOpen, CreateWal)):
            return {"file": self._labels.of(op.path.rpartition("/")[2])}
        if isinstance(op, (AppendWal, CopyWal)):
            return {"data": self._cells(worker, op)}
        return {"size": op.size} if isinstance(op, TruncateWal) else {}

    def _cells(self, worker: str, op: AppendWal | CopyWal) -> tuple[str, ...]:
        """What is left of a line after a short write is its back."""
        cells = cells_of(op.data)
        if cells != (_UNKNOWN,):
            return cells
        whole = self._short.get(worker, b"")
        return cells_of(whole)[-1:] if whole.endswith(op.data) else cells

    def _result(self, op: Op[Any], result: object) -> Any:
        if isinstance(op, ListWals):
            assert isinstance(result, list)
            return [self._labels.of(name) for name in result if is_wal_name(self._prefix, name)]
        if isinstance(op, ReadWal):
            assert isinstance(result, bytes)
            return cells_of(result)
        if isinstance(op, (ClaimTry, ClaimCheck, OwnTry, OwnCheck)):
            return bool(result)
        return True if isinstance(op, ClaimOpen) else None


WAL_ACTIONS = frozenset(
    (
        "ListWals", "ClaimOpen", "ClaimTry", "ClaimCheck", "ReadWal", "CreateWal", "OwnTry",
        "OwnCheck", "AppendWal", "TruncateWal", "CopyWal", "FsyncWal", "FsyncWalDir", "UnlinkWal",
        "CloseWal",
    )
)  # fmt: skip
"""The engine's steps that Wal.tla models."""
