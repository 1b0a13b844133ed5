"""The `Fs` port on the real system. The only module of the engine that talks to it.

Rules of this file
  * One method, one call, as `_fs.py` says. Errors pass through as `OSError`.
  * Every descriptor is close-on-exec, and a fork closes it in the child: an inherited lock
    descriptor would keep a dead parent's lock taken for as long as the child lives (D23, W13).
  * macOS: durable means F_FULLFSYNC. Windows is refused: it has no flock, and its directories
    cannot be synced (F1).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
import weakref

from lychgate._errors import UnsupportedPlatform
from lychgate._fs import OpenMode, Status

try:
    import fcntl
except ImportError as error:  # no flock on this system
    raise UnsupportedPlatform(
        "lychgate needs flock and directory fsync; run it on Linux, macOS or a BSD"
    ) from error

_FLAGS = {
    OpenMode.READ: os.O_RDONLY,
    OpenMode.APPEND: os.O_RDWR | os.O_APPEND,
    OpenMode.CREATE_NEW: os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL,
    OpenMode.LOCK: os.O_RDWR | os.O_CREAT,
}
# O_NONBLOCK: opening a FIFO that somebody put in a file's place must not block (F3).
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK

_F_FULLFSYNC = 51  # <sys/fcntl.h> of macOS


class OsFs:
    """The real file system, as one process sees it."""

    def __init__(self) -> None:
        self._fds: set[int] = set()
        _forked.add(self)

    def open(self, path: str, mode: OpenMode) -> int:
        fd = os.open(path, _FLAGS[mode] | _ALWAYS, 0o600)
        kind = os.fstat(fd).st_mode
        if not stat.S_ISREG(kind):
            os.close(fd)
            code = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
            raise OSError(code, "not a regular file", path)
        self._fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._fds.discard(fd)
        os.close(fd)

    def read(self, fd: int, offset: int, size: int) -> bytes:
        return os.pread(fd, size, offset)

    def append(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def overwrite(self, fd: int, offset: int, data: bytes) -> int:
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        if sys.platform == "darwin":
            fcntl.fcntl(fd, _F_FULLFSYNC)
        else:
            os.fsync(fd)

    def status(self, fd: int) -> Status:
        found = os.fstat(fd)
        return Status(found.st_size, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)

    def set_owner(self, fd: int, mode: int, uid: int, gid: int) -> None:
        found = os.fstat(fd)
        if (found.st_uid, found.st_gid) != (uid, gid):
            try:
                os.fchown(fd, uid, gid)
            except PermissionError:
                pass  # only root may give files away; the mode is kept all the same (D27)
        os.fchmod(fd, mode)

    def is_named(self, fd: int, path: str) -> bool:
        try:
            named = os.lstat(path)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(fd))

    def try_lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def fsync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_dir(self, path: str) -> None:
        os.mkdir(path, 0o700)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def resolve(self, path: str) -> str:
        return os.path.realpath(path)

    def now(self) -> float:
        return time.time()

    def random(self, size: int) -> bytes:
        return os.urandom(size)

    def pid(self) -> int:
        return os.getpid()

    def boot(self) -> str:
        return _BOOT

    def close_all(self) -> None:
        """What a forked child does first: none of the parent's descriptors is its own."""
        while self._fds:
            try:
                os.close(self._fds.pop())
            except OSError:
                pass  # a descriptor that is gone cannot hold a lock


def _read_boot() -> str:
    """The kernel's id of this boot. Without one, an id of this process: every process then takes
    the store for unfinished once, which is slower and no less safe."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.urandom(16).hex()


_BOOT = _read_boot()
_forked: weakref.WeakSet[OsFs] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for fs in list(_forked):
        fs.close_all()


os.register_at_fork(after_in_child=_after_fork_in_child)
