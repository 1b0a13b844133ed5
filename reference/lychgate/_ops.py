"""The steps of the engine: the table that spec, engine, traces and docs share.

Rules of this file
  * One class, one action of the spec (`spec/*.tla`), one call on the port. `lychgate check` and the
    tidy test compare this table with the actions of the spec and the labels of the docs.
  * Steps are grouped by the file they touch: lock file, dead-task data, staging, WAL, directory.
  * What a program does with a result is not here but in `_lock.py`, `_dead.py` and `_wal.py`.
"""

from __future__ import annotations

from typing import ClassVar

from lychgate._fs import Fs, OpenMode, Status
from lychgate._op import Op, step


# --- generic shapes ---------------------------------------------------------------------------


@step
class _Open(Op[int]):
    path: str
    _mode: ClassVar[OpenMode] = OpenMode.READ

    def perform(self, fs: Fs) -> int:
        return fs.open(self.path, self._mode)


@step
class _Close(Op[None]):
    fd: int

    def perform(self, fs: Fs) -> None:
        fs.close(self.fd)


@step
class _Read(Op[bytes]):
    """Up to `size` bytes from `offset`; fewer mean the end of the file."""

    fd: int
    offset: int
    size: int

    def perform(self, fs: Fs) -> bytes:
        return fs.read(self.fd, self.offset, self.size)


@step
class _Append(Op[int]):
    """Bytes written, which may be fewer than given (F2)."""

    fd: int
    data: bytes

    def perform(self, fs: Fs) -> int:
        return fs.append(self.fd, self.data)


@step
class _Truncate(Op[None]):
    fd: int
    size: int

    def perform(self, fs: Fs) -> None:
        fs.truncate(self.fd, self.size)


@step
class _Fsync(Op[None]):
    fd: int
    waits_for_disk = True

    def perform(self, fs: Fs) -> None:
        fs.fsync(self.fd)


@step
class _FsyncDir(Op[None]):
    path: str
    waits_for_disk = True

    def perform(self, fs: Fs) -> None:
        fs.fsync_dir(self.path)


@step
class _Unlink(Op[None]):
    path: str

    def perform(self, fs: Fs) -> None:
        fs.unlink(self.path)


@step
class _TryLock(Op[bool]):
    """True when the lock is now held, False when another description holds it."""

    fd: int

    def perform(self, fs: Fs) -> bool:
        return fs.try_lock(self.fd)


@step
class _IsNamed(Op[bool]):
    """Whether the path still names the locked inode (D24, W11)."""

    fd: int
    path: str

    def perform(self, fs: Fs) -> bool:
        return fs.is_named(self.fd, self.path)


@step
class _Overwrite(Op[int]):
    fd: int
    data: bytes

    def perform(self, fs: Fs) -> int:
        return fs.overwrite(self.fd, 0, self.data)


# --- waiting and directories ------------------------------------------------------------------


@step
class Sleep(Op[None]):
    """Wait between two attempts on a lock; the only step that yields to other fibers (D14)."""

    seconds: float

    def perform(self, fs: Fs) -> None:
        fs.sleep(self.seconds)


@step
class MakeDir(Op[None]):
    path: str

    def perform(self, fs: Fs) -> None:
        fs.make_dir(self.path)


class FsyncParent(_FsyncDir):
    """Makes a directory that was just made durable in its parent (D22)."""

    __slots__ = ()


# --- the lock file (spec/DeadTasks.tla) -------------------------------------------------------


class OpenLock(_Open):
    __slots__ = ()
    _mode = OpenMode.LOCK


class LockTry(_TryLock):
    """One attempt on the dead-task lock. The fiber flag is already held (D15)."""

    __slots__ = ()


class CheckLock(_IsNamed):
    __slots__ = ()


class ReadMark(_Read):
    """Reads the mark: was the last change finished, in this boot, with no failure (D32)?"""

    __slots__ = ()


class SetMark(_Overwrite):
    """Marks the store unfinished, before the first change of an operation."""

    __slots__ = ()


class ClearMark(_Overwrite):
    """Marks the store finished: everything before it is durable, names included."""

    __slots__ = ()


@step
class Unlock(Op[None]):
    fd: int

    def perform(self, fs: Fs) -> None:
        fs.unlock(self.fd)


class CloseLock(_Close):
    __slots__ = ()


# --- dead-task data and staging (spec/DeadTasks.tla) ------------------------------------------


class OpenData(_Open):
    """Opens the live file by its path; only ever under the lock, never kept (D13)."""

    __slots__ = ()
    _mode = OpenMode.APPEND


@step
class StatData(Op[Status]):
    fd: int

    def perform(self, fs: Fs) -> Status:
        return fs.status(self.fd)


class ReadTail(_Read):
    """Reads backward for the last newline (D11)."""

    __slots__ = ()


class TruncateTail(_Truncate):
    __slots__ = ()


class AppendRecord(_Append):
    __slots__ = ()


class FsyncData(_Fsync):
    __slots__ = ()


class CloseData(_Close):
    __slots__ = ()


class ReadLive(_Read):
    """Reads the live file from the front: listing, finding, copying."""

    __slots__ = ()


class CreateStaging(_Open):
    """A new inode every time: a reused one could show its old bytes after a crash (D29)."""

    __slots__ = ()
    _mode = OpenMode.CREATE_NEW


class UnlinkStaging(_Unlink):
    __slots__ = ()


@step
class MatchOwner(Op[None]):
    """Gives staging the live file's mode and owner (D27)."""

    fd: int
    mode: int
    uid: int
    gid: int

    def perform(self, fs: Fs) -> None:
        fs.set_owner(self.fd, self.mode, self.uid, self.gid)


class WriteStaging(_Append):
    __slots__ = ()


class FsyncStaging(_Fsync):
    __slots__ = ()


class CloseStaging(_Close):
    __slots__ = ()


@step
class RenameStaging(Op[None]):
    staging: str
    live: str

    def perform(self, fs: Fs) -> None:
        fs.rename(self.staging, self.live)


class FsyncDir(_FsyncDir):
    """Makes the live name durable."""

    __slots__ = ()


# --- the WAL (spec/Wal.tla) -------------------------------------------------------------------


@step
class ListWals(Op[list[str]]):
    path: str

    def perform(self, fs: Fs) -> list[str]:
        return fs.list_dir(self.path)


class ClaimOpen(_Open):
    """Opens a file that another process may own, or may have left."""

    __slots__ = ()


class ClaimTry(_TryLock):
    __slots__ = ()


class ClaimCheck(_IsNamed):
    """A lock won on an unlinked file is worth nothing (W11)."""

    __slots__ = ()


class ReadWal(_Read):
    __slots__ = ()


class CreateWal(_Open):
    __slots__ = ()
    _mode = OpenMode.CREATE_NEW


class OwnTry(_TryLock):
    """Locks a file that was just created; never waits (W11)."""

    __slots__ = ()


class OwnCheck(_IsNamed):
    """Between creation and lock another process may have taken and unlinked the new file."""

    __slots__ = ()


class AppendWal(_Append):
    __slots__ = ()


class TruncateWal(_Truncate):
    """Takes back the bytes of an append that failed part way (W6)."""

    __slots__ = ()


class CopyWal(_Append):
    """Writes a batch of live records into the new file: rotation and merging (W5)."""

    __slots__ = ()


class FsyncWal(_Fsync):
    __slots__ = ()


class FsyncWalDir(_FsyncDir):
    """Makes the names of WAL files durable: one that came, or one that went."""

    __slots__ = ()


class UnlinkWal(_Unlink):
    """Before the lock goes: unlink, then close (W11)."""

    __slots__ = ()


class CloseWal(_Close):
    __slots__ = ()
