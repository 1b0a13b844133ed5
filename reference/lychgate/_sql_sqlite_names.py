"""The names of a SQLite database's files, and that a crash keeps them (D9, D22, F2).

SQLite syncs the directory itself when it begins a write-ahead log, and does not look at what that
answers (decision 33): a commit could be acknowledged that lies in a file without a durable name.
So the names are made here, and synced, before anything is written under them:

    the database     in a file of its own, synced, then renamed into place; then the directory
    tables           only after that: a database of ours without tables may lack a durable name,
                     and is made anew, for a second sync does not bring back what one has lost
    the write-ahead  made by a read, before the first write of each connection; then the directory;
    log              if that fails the connection is closed, and the last one takes the log away;
                     so does the next one, where its process was killed in between

Rules of this file
  * One process and thread at a time: flock on the directory. SQLite's own locks are of another kind
    and on the files; no file that SQLite may have open is opened here, for its close would drop
    the locks of this process.
  * Calls fail with `Trouble`, which says what to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lychgate._fs import OpenMode
from lychgate._osfs import OsFs

APPLICATION_ID = 0x4C796368
"""Marks a database file as one that was made here ("Lych"; PRAGMA application_id)."""

_SLEEP_S = 0.005
_NEW = ".new"
_DATA = ("-journal", "-wal")
_BESIDE = (*_DATA, "-shm")
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""Errors by which a file system says that it has no sync of directories, and needs none."""


class Trouble(Exception):
    """A call failed, or a file is in the way."""

    def __init__(self, code: str, text: str, remedy: str, is_missing: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.remedy = remedy
        self.is_missing = is_missing
        """There is no such directory."""


class Names:
    """The files of one database. `wait_s`: the longest wait for other processes, in seconds."""

    def __init__(self, path: str, wait_s: float) -> None:
        self._path = os.path.realpath(path)  # SQLite follows links as well
        self._directory = os.path.dirname(self._path)
        self._wait_s = wait_s
        self._fs = OsFs()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else makes names in this directory meanwhile."""
        with _in_words(self._directory):
            fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _in_words(self._directory):
                self._lock(fd)
            try:
                yield
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)  # a child that was forked meanwhile has it as well
        finally:
            os.close(fd)

    def _lock(self, fd: int) -> None:
        end = time.monotonic() + self._wait_s
        while not self._fs.try_lock(fd):
            if time.monotonic() > end:
                what = f"another process has had the directory locked for {self._wait_s:g} s"
                raise Trouble("flock", what, "end it and call again")
            time.sleep(_SLEEP_S)

    def sync(self) -> None:
        """All names of the directory are durable when this returns."""
        with _in_words(self._directory):
            try:
                self._fs.fsync_dir(self._directory)
            except OSError as error:
                if error.errno not in _NO_SYNC:
                    raise

    def exists(self) -> bool:
        return os.path.lexists(self._path)

    def has_log(self) -> bool:
        return os.path.lexists(f"{self._path}-wal")

    def make(self) -> None:
        """An empty database, for its owner alone (D27), that has a write-ahead log."""
        with _in_words(self._path):
            for name in (f"{self._path}{it}" for it in _DATA):
                if os.path.lexists(name) and os.lstat(name).st_size:
                    what = f"{name} has data of a database that is not there"
                    raise Trouble("orphan", what, "put the database back, or move that file away")
            new = f"{self._path}{_NEW}"
            _unlink_all(new)  # what somebody who died had begun
            self._fs.close(self._fs.open(new, OpenMode.CREATE_NEW))
            inner = sqlite3.connect(new, isolation_level=None)
            try:
                inner.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                use_log(inner)
            finally:
                inner.close()
            fd = self._fs.open(new, OpenMode.APPEND)
            try:
                self._fs.fsync(fd)
            finally:
                self._fs.close(fd)
            self._fs.rename(new, self._path)
        self.sync()

    def remove(self) -> None:
        """Take away a database that holds nothing."""
        with _in_words(self._path):
            _unlink_all(self._path)


def use_log(inner: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. SQLite does not raise when that fails: it stays as it was."""
    ((mode,),) = inner.execute("PRAGMA journal_mode = WAL").fetchall()
    if mode != "wal":
        what = f"the database stays with journal_mode {mode}"
        raise Trouble("journal_mode", what, "name a file on a local disk that has no errors")


def _unlink_all(path: str) -> None:
    """A database and what is beside it; itself last, so that no log is ever without it."""
    for suffix in (*_BESIDE, ""):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "OSError")
        remedy = _REMEDIES.get(code, "look at the kernel log: the device failed, nothing was lost")
        is_missing = code in ("ENOENT", "ENOTDIR")
        text = f"{error.filename or path}: {error.strerror or error}"
        raise Trouble(code, text, remedy, is_missing) from error


_REMEDIES = {
    "ENOENT": "make the directory",
    "ENOTDIR": "name a file in a directory",
    "EACCES": "let this user read and write the directory",
    "EPERM": "let this user read and write the directory",
    "EROFS": "name a file on a device that can be written",
    "ENOSPC": "free space on the device and call again",
    "EDQUOT": "free space in the quota and call again",
    "EMFILE": "raise the limit of open files and call again",
    "ENFILE": "raise the system's limit of open files and call again",
}
