"""The lock that keeps a second instance out (L3), and the mark of a clean end in it.

The same steps and the same mark as the dead-task store's (`_lock.py`), held for the life of an
instance. One attempt, no waiting: whoever comes second is told. The lock excludes processes, and
instances of one process; it is no thread lock (L13).
"""

from __future__ import annotations

import errno

from lychgate._delivery_errors import DeliveryLocked
from lychgate._fs import Facts
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._op import StepError, with_undo
from lychgate._ops import (
    CheckLock,
    ClearMark,
    CloseLock,
    LockTry,
    OpenLock,
    ReadMark,
    SetMark,
)

_ATTEMPTS_MAX = 100  # somebody replaces the lock file again and again


class InstanceLock:
    """The lock of one directory, as one instance holds it."""

    def __init__(self, path: str, facts: Facts) -> None:
        self._path = path
        self._facts = facts
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    async def take(self) -> bool:
        """Take the lock; whether the last instance ended well, in this boot. Raises
        DeliveryLocked when another one has it."""
        for _ in range(_ATTEMPTS_MAX):
            self._fd = await OpenLock(self._path)
            named = await with_undo(self._attempt(self._fd), self.release)
            if named:
                mark = await with_undo(self._read(self._fd), self.release)
                return mark == clean_mark(self._facts.boot())
            await self.release()
        raise DeliveryLocked(f"somebody keeps replacing {self._path}")

    async def _attempt(self, fd: int) -> bool:
        if not await LockTry(fd):
            raise DeliveryLocked(f"another instance has {self._path}; close it first (lsof)")
        return await CheckLock(fd, self._path)

    async def _read(self, fd: int) -> bytes:
        return await ReadMark(fd, 0, len(UNFINISHED_MARK))

    async def mark_unfinished(self) -> None:
        """Before the first change."""
        assert self._fd is not None
        await _write(SetMark(self._fd, UNFINISHED_MARK))

    async def mark_clean(self) -> None:
        """After the last change is durable."""
        assert self._fd is not None
        await _write(ClearMark(self._fd, clean_mark(self._facts.boot())))

    async def release(self) -> None:
        """Closing the only descriptor frees the lock. Safe to repeat."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            await CloseLock(fd)
        except StepError:
            pass  # a failed close(2) has closed the descriptor all the same


async def _write(op: SetMark | ClearMark) -> None:
    """A mark in part is not a clean one, and the instance must know."""
    if await op != len(UNFINISHED_MARK):
        raise StepError(op.action, OSError(errno.EIO, "short write to the lock file"))
