"""The dead-task lock and its mark (spec/DeadTasks.tla: LockTry … Unlock, ReadMark … ClearMark).

The lock is `flock` on a file that is never renamed, unlinked or replaced by us (D13). It excludes
processes, and it excludes objects of one process, because each object has a description of its
own. It does not exclude the fibers of one object, which share a description: a flag in memory does
that, taken in the same loop (D15).

The mark is the content of the lock file: `clean <boot>` after an operation that ended well,
anything else while one is under way, after one that died or failed, and after a host crash (the
boot id is another). Who finds the mark unclean republishes the data file before changing anything
(D32). The mark is never fsynced: after a host crash it is not believed, and before one the cache
tells the truth.

One fiber's release never frees another's lock: the flag knows its holder, and what a process holds
is found by its process id, so a forked child starts with nothing (D23).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lychgate._errors import ClosedError, DeadTasksLockTimeout
from lychgate._flag import Flag
from lychgate._fs import Facts
from lychgate._op import Program, StepError, with_undo
from lychgate._ops import (
    CheckLock,
    ClearMark,
    CloseLock,
    LockTry,
    OpenLock,
    ReadMark,
    SetMark,
    Sleep,
    Unlock,
)
from lychgate._stats import Stats

R = TypeVar("R")

LOCK_ATTEMPTS_MAX = 500
"""Attempts on the lock before `DeadTasksLockTimeout` (D14)."""

LOCK_SLEEP_S = 0.01
"""Seconds between two attempts: 500 of them are five seconds."""

_REPLACED_MAX = 500  # lock files replaced in a row, after which somebody fights over the path

_MARK_BYTES = 64


def clean_mark(boot: str) -> bytes:
    """The lock file's content after an operation of this boot that ended well."""
    mark = f"clean {boot}".encode("ascii").ljust(_MARK_BYTES - 1) + b"\n"
    assert len(mark) == _MARK_BYTES, "a boot id fits"
    return mark


UNFINISHED_MARK = b"unfinished".ljust(_MARK_BYTES - 1) + b"\n"


class Held:
    """What one process has of one lock: the flag of its fibers and the shared descriptor."""

    def __init__(self) -> None:
        self.flag = Flag()
        self.fd: int | None = None
        self.locked = False  # by the fiber that has the flag; true before it is known
        self.closed = False


class StoreLock:
    """The lock of one dead-task store, as one backend object uses it."""

    def __init__(self, path: str, facts: Facts, stats: Stats) -> None:
        self._path = path
        self._facts = facts
        self._stats = stats
        self._by_process: dict[int, Held] = {}

    def _mine(self) -> Held:
        return self._by_process.setdefault(self._facts.pid(), Held())

    async def hold(self, body: Callable[[Held], Program[R]]) -> R:
        """Run `body` under the lock, or DeadTasksLockTimeout with the store unchanged (D14).

        Whatever ends it, but for a crash: what this call took is free again, nothing else (D10).
        """
        held, fiber = self._mine(), object()

        async def release() -> None:
            if held.flag.holder() is fiber and held.locked:
                await self._unlock(held)

        async def inside() -> R:
            await self._acquire(held, fiber)
            result = await body(held)
            await release()
            return result

        try:
            return await with_undo(inside(), release)
        finally:
            if fiber in held.flag:
                held.flag.remove(fiber)  # memory, so it cannot fail

    async def _acquire(self, held: Held, fiber: object) -> None:
        for _ in range(LOCK_ATTEMPTS_MAX):
            if held.flag.take(fiber):
                if held.closed:
                    raise ClosedError("this backend was closed; open a new one")
                if await self._attempt(held):
                    return
                held.flag.remove(fiber)
            await Sleep(LOCK_SLEEP_S)
        self._stats.count("lock_timeouts")
        raise DeadTasksLockTimeout(
            f"{self._path} stayed locked for {LOCK_ATTEMPTS_MAX * LOCK_SLEEP_S:g} s; "
            "call again, or look for the process that holds it (lsof)"
        )

    async def _attempt(self, held: Held) -> bool:
        """One attempt, repeated at once on the new file when the path names another inode (D24)."""
        for _ in range(_REPLACED_MAX):
            if held.fd is None:
                held.fd = await OpenLock(self._path)
            if not await self._try(held, held.fd):
                return False
            if await with_undo(_check(held.fd, self._path), partial(self._drop, held)):
                return True
            self._stats.count("lock_files_replaced")
            await self._drop(held)
        return False

    async def _try(self, held: Held, fd: int) -> bool:
        held.locked = True  # an interrupt may come when it is, and before we are told
        try:
            held.locked = await LockTry(fd)
        except StepError:
            held.locked = False
            raise
        return held.locked

    async def _unlock(self, held: Held) -> None:
        assert held.fd is not None
        try:
            await with_undo(_unlock(held.fd), partial(self._drop, held))
        except StepError:
            pass  # closing the only descriptor has freed the lock as well
        held.locked = False

    async def _drop(self, held: Held) -> None:
        """Close the descriptor, and the lock with it; the next attempt opens the path again."""
        assert held.fd is not None
        fd, held.fd, held.locked = held.fd, None, False
        try:
            await CloseLock(fd)
        except StepError:
            pass  # a failed close(2) has closed the descriptor all the same (Linux, BSD)

    async def is_clean(self, held: Held) -> bool:
        """Whether everything before this operation is finished and durable."""
        assert held.fd is not None
        return await ReadMark(held.fd, 0, _MARK_BYTES) == clean_mark(self._facts.boot())

    async def set_mark(self, held: Held) -> None:
        """Before the first change."""
        assert held.fd is not None
        await _write_mark(SetMark(held.fd, UNFINISHED_MARK))

    async def clear_mark(self, held: Held) -> None:
        """After the last change is durable."""
        assert held.fd is not None
        await _write_mark(ClearMark(held.fd, clean_mark(self._facts.boot())))

    async def close(self) -> None:
        """Give the descriptor back, after the operation that holds it. Safe to repeat.

        Operations that still wait for the flag find that they came too late.
        """
        held, fiber = self._mine(), object()
        try:
            while not held.flag.take(fiber):
                await Sleep(LOCK_SLEEP_S)
            held.closed = True
            if held.fd is not None:
                await self._drop(held)
        finally:
            if fiber in held.flag:
                held.flag.remove(fiber)


async def _check(fd: int, path: str) -> bool:
    return await CheckLock(fd, path)


async def _unlock(fd: int) -> None:
    await Unlock(fd)


async def _write_mark(op: SetMark | ClearMark) -> None:
    """Even a short write leaves no clean mark behind by mistake: the first byte tells the two
    apart, and a clean mark counts only when it is whole."""
    if await op != _MARK_BYTES:
        raise StepError(op.action, OSError(errno.EIO, "short write to the lock file"))
