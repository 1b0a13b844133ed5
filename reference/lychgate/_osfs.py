"""The `Fs` port on the real system. The only module of the engine that talks to it.

Rules of this file
  * One method, one call, as `_fs.py` says. Errors pass through as `OSError`. A method that raises
    has done nothing, also when it was interrupted (Ctrl-C) after its call.
  * Every descriptor is close-on-exec, and a fork closes it in the child: an inherited lock
    descriptor would keep a dead parent's lock taken for as long as the child lives (D23, W13).
    No other thread can fork between a call and the note that is taken of its descriptor.
  * macOS: durable means F_FULLFSYNC. Windows is refused: it has no flock, and its directories
    cannot be synced (F1).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable

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
# O_NONBLOCK: opening a FIFO that somebody put in a file's place must not block (F3). O_NOFOLLOW:
# paths are resolved when a backend is opened (D27); a link that comes later is an error.
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW

_F_FULLFSYNC = 51  # <sys/fcntl.h> of macOS


class OsFs:
    """The real file system, as one process sees it. `clock` tells wall-clock time in seconds."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.time
        self._fds: set[int] = set()
        self._pid = os.getpid()
        self._ancestors: list[int] = []
        _forked.add(self)

    def open(self, path: str, mode: OpenMode) -> int:
        with _no_fork:
            fd = _above_streams(os.open(path, _FLAGS[mode] | _ALWAYS, 0o600))
            self._fds.add(fd)
        try:
            kind = os.fstat(fd).st_mode
            if not stat.S_ISREG(kind):
                code = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
                raise OSError(code, "not a regular file", path)
        except BaseException:
            self.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        with _no_fork:
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
            # Only root may give files away; a member of the group may keep it; an id that this user
            # namespace does not know is EINVAL. The mode is kept all the same (D27).
            for owner in (uid, -1):
                try:
                    os.fchown(fd, owner, gid)
                    break
                except OSError as error:
                    if error.errno not in (errno.EPERM, errno.EINVAL):
                        raise
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
        except BaseException:  # a signal handler may have raised after the lock was taken
            fcntl.flock(fd, fcntl.LOCK_UN)
            raise
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
        return self._clock()

    def random(self, size: int) -> bytes:
        return os.urandom(size)

    def pid(self) -> int:
        pid = os.getpid()
        if pid in self._ancestors:  # it came round again, and is another process all the same
            pid += len(self._ancestors) << 32
        return pid

    def boot(self) -> str:
        return _BOOT

    def forked(self) -> None:
        """What a forked child does first: none of the parent's descriptors is its own."""
        self.close_all()
        self._ancestors.append(self._pid)
        self._pid = os.getpid()

    def close_all(self) -> None:
        """Let everything go, as the kernel does when a process dies."""
        while self._fds:
            try:
                os.close(self._fds.pop())
            except OSError:
                pass  # a descriptor that is gone cannot hold a lock

    def __del__(self) -> None:
        self.close_all()  # a backend that nobody can reach must not keep its locks


def _above_streams(fd: int) -> int:
    """Not 0, 1 or 2: where a standard stream is closed, a stray print would land in the store."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _read_boot() -> str:
    """The kernel's id of this boot. Without one, an id of this process: every process then takes
    the store for unfinished after another one's change, which is slower and no less safe."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return boot or os.urandom(16).hex()


_BOOT = _read_boot()
_no_fork = threading.RLock()  # held by the thread that forks, and around every open and close
_forked: weakref.WeakSet[OsFs] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for fs in list(_forked):
        fs.forked()
    _no_fork.release()


os.register_at_fork(
    before=_no_fork.acquire,
    after_in_parent=_no_fork.release,
    after_in_child=_after_fork_in_child,
)
