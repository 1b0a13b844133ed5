"""Helpers of the engine's tests: a file system that fails on demand, and what must be clean after.

`FaultyFs` is the real file system whose k-th call fails, is short, or is interrupted. A call that
fails has done nothing, but for `close`, which has closed all the same (Linux), and for a late
interrupt, which comes when the call is done. fsync is counted and not made: no test here pulls the
plug, and a device that is slow must not decide how long the tests take.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from lychgate._disk import DiskPrograms
from lychgate._drive import drive, run
from lychgate._fs import OpenMode, Status
from lychgate._op import Op, Program
from lychgate._osfs import OsFs
from lychgate._records import JSON, Codec

P = ParamSpec("P")
R = TypeVar("R")

ERRNOS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EINTR,
    errno.EMFILE,
    errno.EACCES,
    errno.EROFS,
)
"""F2's list."""


@dataclass
class Fault:
    """What happens from the `first` call on, for `count` calls (those named `only`, if given)."""

    first: int
    error: BaseException | None = None
    count: int = 1
    only: str = ""
    late: bool = False
    short: int | None = None


class FaultyFs(OsFs):
    """The real file system with one `fault`, and a list of the `calls` since it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.fault: Fault | None = None
        self._left = 0

    def arm(self, fault: Fault | None) -> None:
        self.calls = []
        self.fault = fault
        self._left = fault.count if fault else 0

    def _due(self, name: str) -> Fault | None:
        self.calls.append(name)
        fault = self.fault
        if fault is None or not self._left or len(self.calls) <= fault.first:
            return None
        if fault.only and fault.only != name:
            return None
        self._left -= 1
        return fault

    def _call(self, name: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        fault = self._due(name)
        if fault is None or fault.error is None:
            return call(*args, **kwargs)
        if fault.late or name == "close":
            call(*args, **kwargs)
        raise fault.error

    def open(self, path: str, mode: OpenMode) -> int:
        return self._call("open", super().open, path, mode)

    def close(self, fd: int) -> None:
        self._call("close", super().close, fd)

    def read(self, fd: int, offset: int, size: int) -> bytes:
        short = self.fault.short if self.fault else None
        size = size if short is None else max(1, min(short, size))
        return self._call("read", super().read, fd, offset, size)

    def append(self, fd: int, data: bytes) -> int:
        short = self.fault.short if self.fault else None
        return self._call("append", super().append, fd, data if short is None else data[:short])

    def overwrite(self, fd: int, offset: int, data: bytes) -> int:
        return self._call("overwrite", super().overwrite, fd, offset, data)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate", super().truncate, fd, size)

    def fsync(self, fd: int) -> None:
        self._call("fsync", os.fstat, fd)

    def status(self, fd: int) -> Status:
        return self._call("status", super().status, fd)

    def set_owner(self, fd: int, mode: int, uid: int, gid: int) -> None:
        self._call("set_owner", super().set_owner, fd, mode, uid, gid)

    def is_named(self, fd: int, path: str) -> bool:
        return self._call("is_named", super().is_named, fd, path)

    def try_lock(self, fd: int) -> bool:
        return self._call("try_lock", super().try_lock, fd)

    def unlock(self, fd: int) -> None:
        self._call("unlock", super().unlock, fd)

    def fsync_dir(self, path: str) -> None:
        self._call("fsync_dir", os.stat, path)

    def rename(self, old: str, new: str) -> None:
        self._call("rename", super().rename, old, new)

    def unlink(self, path: str) -> None:
        self._call("unlink", super().unlink, path)

    def make_dir(self, path: str) -> None:
        self._call("make_dir", super().make_dir, path)

    def list_dir(self, path: str) -> list[str]:
        return self._call("list_dir", super().list_dir, path)

    def sleep(self, seconds: float) -> None:
        self._call("sleep", super().sleep, seconds)


class Store:
    """The disk backend as programs on a `FaultyFs`, with a driver: sync or asyncio."""

    def __init__(
        self, path: Path, *, frequency: float = 0.0, loop: asyncio.Runner | None = None,
        codec: Codec = JSON, prefix: str = "deferred-",
    ) -> None:
        self.path = path
        self.fs = FaultyFs()
        self.programs = DiskPrograms(path, prefix, frequency, codec, self.fs)
        self.trace: list[str] = []
        self._loop = loop

    def _observe(self, op: Op[Any], result: object, error: BaseException | None) -> None:
        self.trace.append(op.action)

    def do(self, program: Program[R]) -> R:
        self.trace = []
        if self._loop is None:
            return run(program, self.fs, self._observe)
        return self._loop.run(drive(program, self.fs, self._observe))

    def open(self) -> Store:
        self.do(self.programs.open())
        return self

    def add(self, task: object, task_id: str | None = None) -> str:
        return self.do(self.programs.add_task(task, None, task_id))

    def remove(self, task_id: str) -> None:
        self.do(self.programs.remove_task(task_id))

    def pending(self) -> list[str]:
        return [task_id for task_id, _, _ in self.do(self.programs.pending_tasks())]

    def bury(self, task_id: str, context: object = None) -> None:
        self.do(self.programs.add_dead_task(task_id, context, ValueError("no"), "Job", 3))

    def dead(self) -> list[str]:
        return [dead.task_id for dead in self.do(self.programs.list_dead_tasks())]

    def unbury(self, *task_ids: str) -> int:
        return self.do(self.programs.remove_dead_tasks(list(task_ids)))

    def stats(self) -> dict[str, int]:
        return self.programs.stats()

    def close(self) -> None:
        self.do(self.programs.close())

    def kill(self) -> None:
        """What is left of a process that died: nothing but the kernel's files."""
        self.fs.close_all()

    # --- what must be clean after any call ------------------------------------------------------

    def data_file(self) -> Path:
        return self.path / "deferred-dead_tasks-0"

    def lock_file(self) -> Path:
        return self.path / "deferred-dead_tasks.lock"

    def staging_file(self) -> Path:
        return self.path / "deferred-dead_tasks-0.tmp"

    def wal_files(self) -> list[Path]:
        return sorted(self.path.glob("deferred-0-*"))

    def check_clean(self) -> None:
        """No lock or flag is taken, and the engine knows every descriptor that is open (F2)."""
        held = self.programs._dead._lock._mine()
        own = self.programs._wal._by_process.get(os.getpid())
        assert not held.flag.locked()
        known = {held.fd} if held.fd is not None else set()
        if own is not None:
            assert not own.flag.locked()
            known |= {file.fd for file in own.retired}
            known |= {own.file.fd} if own.file is not None else set()
        assert self.fs._fds == known
        assert not self.lock_file().exists() or is_free(self.lock_file())


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock of a file."""
    with open(path, "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def open_descriptors() -> dict[int, str]:
    """What this process has open below a directory of tests."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor of the listing itself
        if "pytest" in target:
            found[int(name)] = target
    return found


@contextmanager
def no_leak() -> Iterator[None]:
    """Every descriptor that the body opens on a test's file, it closes."""
    before = open_descriptors()
    yield
    after = open_descriptors()  # fewer are fine: another test's garbage may have been collected
    assert {fd: path for fd, path in after.items() if before.get(fd) != path} == {}
