"""The `Fs` port: every call that the engine makes on the outside world, and nothing else.

Rules of this file
  * A method is one call: it happens or it raises `OSError`; no method retries or loops.
  * Descriptors are small integers bound to inodes, never to paths. An advisory lock (`try_lock`)
    belongs to the open file description, as `flock(2)` has it.
  * `now`, `random`, `pid` and `boot` are facts, not steps: they change nothing and a trace does
    not show them. Everything else is a step and has exactly one `Op` class in `_ops.py`.

Two implementations: `_osfs.OsFs` on the real system, and the simulated file system of the crash
lab. Source of the semantics: POSIX.1-2024 and the Linux manual pages of the calls named below.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol


class OpenMode(enum.Enum):
    """How `Fs.open` opens. Nothing is ever truncated by opening it (D12, D29)."""

    READ = "read"  # an existing file, reading only
    APPEND = "append"  # an existing file, reading, writes go to the end
    CREATE_NEW = "create-new"  # a new inode (O_EXCL), reading, writes go to the end; mode 0600
    LOCK = "lock"  # created if missing, reading and writing in place; mode 0600


@dataclass(frozen=True, slots=True)
class Status:
    """What `fstat` says of an open file: size in bytes, permission bits, numeric owner, group."""

    size: int
    mode: int
    uid: int
    gid: int


class Facts(Protocol):
    """What a program may know of the world without taking a step."""

    def resolve(self, path: str) -> str:
        """The absolute path with every symlink followed, existing or not (D27, W14)."""

    def now(self) -> float:
        """Wall-clock time."""

    def random(self, size: int) -> bytes:
        """`size` unpredictable bytes."""

    def pid(self) -> int:
        """The process id; a change tells an object that it was carried through a fork (D23)."""

    def boot(self) -> str:
        """An id that is new after every host crash, at most 48 ASCII characters."""


class Fs(Facts, Protocol):
    """One method, one call. Sizes and offsets are bytes, times are seconds since the Unix epoch."""

    def open(self, path: str, mode: OpenMode) -> int:
        """`open(2)` with O_CLOEXEC; only regular files (others raise `OSError`)."""

    def close(self, fd: int) -> None:
        """`close(2)`; closing the last descriptor of a description frees its lock."""

    def read(self, fd: int, offset: int, size: int) -> bytes:
        """`pread(2)`: up to `size` bytes, `b""` at the end of the file."""

    def append(self, fd: int, data: bytes) -> int:
        """`write(2)` at the end of the file; may write fewer bytes than given. Bytes written."""

    def overwrite(self, fd: int, offset: int, data: bytes) -> int:
        """`pwrite(2)`: in place; may write fewer bytes than given. Bytes written."""

    def truncate(self, fd: int, size: int) -> None:
        """`ftruncate(2)`."""

    def fsync(self, fd: int) -> None:
        """`fsync(2)`, F_FULLFSYNC on macOS (F1)."""

    def status(self, fd: int) -> Status:
        """`fstat(2)`."""

    def set_owner(self, fd: int, mode: int, uid: int, gid: int) -> None:
        """`fchmod(2)`, and `fchown(2)` where permitted (D27)."""

    def is_named(self, fd: int, path: str) -> bool:
        """Whether `path` (not followed) names the inode behind `fd`: `lstat(2)`, `fstat(2)`."""

    def try_lock(self, fd: int) -> bool:
        """`flock(LOCK_EX | LOCK_NB)`: False when another description holds the lock."""

    def unlock(self, fd: int) -> None:
        """`flock(LOCK_UN)`."""

    def fsync_dir(self, path: str) -> None:
        """Open the directory, `fsync(2)` it, close it."""

    def rename(self, old: str, new: str) -> None:
        """`rename(2)` inside one directory; atomic (F1)."""

    def unlink(self, path: str) -> None:
        """`unlink(2)`."""

    def make_dir(self, path: str) -> None:
        """`mkdir(2)`, mode 0700."""

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass. The only call that waits for something other than the disk (D14)."""
