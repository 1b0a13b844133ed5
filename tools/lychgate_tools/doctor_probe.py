"""Trying the assumptions (F1) in a directory of our own, made beside the store and removed again.

Each probe is a function of that directory that gives a sentence, or raises `Broken` with one. What
the system refuses (`OSError`) is broken as well: the engine would meet the same refusal.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lychgate_tools.doctor import FAILS, OK, UNKNOWN, Check
from lychgate_tools.doctor_system import Place

_PREFIX = ".lychgate-doctor-"
_CHILD_TIMEOUT_S = 20.0
_FSYNCS = 7
_F_FULLFSYNC = 51  # <sys/fcntl.h> of macOS


class Broken(Exception):
    """An assumption does not hold."""


class NotTried(Exception):
    """It could not be tried."""


def probe(place: Place) -> list[Check]:
    """The checks that need to write. Nothing stays behind."""
    directory = os.path.join(place.directory, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        os.mkdir(directory, 0o700)
    except OSError as error:
        return [Check("probe", FAILS, f"no directory can be made here: {error.strerror}")]
    try:
        return [_try(name, attempt, directory) for name, attempt in PROBES.items()]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _try(name: str, attempt: Callable[[str], str], directory: str) -> Check:
    try:
        return Check(name, OK, attempt(directory))
    except Broken as error:
        return Check(name, FAILS, str(error))
    except NotTried as error:
        return Check(name, UNKNOWN, str(error))
    except OSError as error:
        return Check(name, FAILS, f"{error.strerror or error}")


@contextmanager
def _opened(path: str, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _fsync(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, _F_FULLFSYNC)
    else:
        os.fsync(fd)


# --- locks ------------------------------------------------------------------------------------


def _takes(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _flock_here(directory: str) -> str:
    path = os.path.join(directory, "lock")
    with _opened(path) as one, _opened(path) as other:
        if not _takes(one):
            raise Broken("a lock on a new file was refused")
        if _takes(other):
            raise Broken("two descriptions of one file hold the same lock at once")
        fcntl.flock(one, fcntl.LOCK_UN)
        if not _takes(other):
            raise Broken("a lock that was given back cannot be taken")
    return "excludes a second description of the file"


_CHILD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    for _ in sys.stdin:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("held", flush=True)
        except BlockingIOError:
            print("busy", flush=True)
"""


def _flock_between(directory: str) -> str:
    path = os.path.join(directory, "lock2")
    with _opened(path) as fd:
        command = [sys.executable, "-I", "-S", "-c", _CHILD, path]
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        except OSError as error:
            raise NotTried(f"no second process could be started: {error.strerror}") from error
        try:
            return _ask_child(fd, child)
        finally:
            child.kill()
            child.communicate()


def _ask_child(fd: int, child: subprocess.Popen[str]) -> str:
    assert child.stdin is not None and child.stdout is not None
    answers: list[str] = []
    _takes(fd)
    for _ in range(2):  # once while we hold the lock, once after
        try:
            child.stdin.write("try\n")
            child.stdin.flush()
        except BrokenPipeError:
            pass
        answers.append(child.stdout.readline().strip())
        fcntl.flock(fd, fcntl.LOCK_UN)
    if "" in answers:
        raise NotTried("the second process ended early")
    if answers[0] == "held":
        raise Broken("two processes hold the same lock at once")
    if answers[1] == "busy" or _takes(fd):
        raise Broken("a lock that one process gave back cannot be taken by another")
    child.kill()
    child.wait(timeout=_CHILD_TIMEOUT_S)
    for _ in range(100):
        if _takes(fd):
            return "excludes a second process, and is free when that process is killed"
        time.sleep(0.01)
    raise Broken("the lock of a killed process stays taken")


# --- files and names --------------------------------------------------------------------------


def _exclusive(directory: str) -> str:
    path = os.path.join(directory, "new")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    with _opened(path, flags):
        pass
    try:
        with _opened(path, flags):
            raise Broken("O_EXCL opened a file that existed")
    except FileExistsError:
        return "O_EXCL refuses a name that exists"


def _append(directory: str) -> str:
    path = os.path.join(directory, "data")
    with _opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as fd:
        os.write(fd, b"one\ntwo\nthr")
        os.ftruncate(fd, 8)
        os.write(fd, b"new\n")
        if os.pread(fd, 100, 0) != b"one\ntwo\nnew\n":
            raise Broken("what was appended after a truncation reads back differently")
    return "write to the end, truncate, read back"


def _rename(directory: str) -> str:
    old, new = os.path.join(directory, "staging"), os.path.join(directory, "live")
    for path, text in ((new, b"before"), (old, b"after")):
        with _opened(path) as fd:
            os.write(fd, text)
    with _opened(new, os.O_RDONLY) as before, _opened(old, os.O_RDONLY) as after:
        os.rename(old, new)
        if not os.path.samestat(os.stat(new), os.fstat(after)):
            raise Broken("after a rename the name does not lead to the renamed file")
        if os.path.exists(old):
            raise Broken("after a rename the old name is still there")
        if os.pread(before, 100, 0) != b"before":
            raise Broken("a file that was replaced lost its bytes for those who had it open")
    return "replaces a file; whoever had the old one open keeps it"


def _fsync_file(directory: str) -> str:
    times: list[float] = []
    with _opened(os.path.join(directory, "synced")) as fd:
        for _ in range(_FSYNCS):
            os.write(fd, b"x" * 256)
            start = time.perf_counter()
            _fsync(fd)
            times.append(time.perf_counter() - start)
    call = "F_FULLFSYNC" if sys.platform == "darwin" else "fsync"
    return f"{call} takes {statistics.median(times) * 1e6:,.0f} µs (median of {_FSYNCS})"


def _fsync_directory(directory: str) -> str:
    for path in (directory, os.path.dirname(directory)):
        with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            _fsync(fd)
    return "a directory can be fsynced, and so can the one it is in"


PROBES: dict[str, Callable[[str], str]] = {
    "flock": _flock_here,
    "flock between processes": _flock_between,
    "exclusive creation": _exclusive,
    "append and truncate": _append,
    "rename": _rename,
    "fsync of a file": _fsync_file,
    "fsync of a directory": _fsync_directory,
}
