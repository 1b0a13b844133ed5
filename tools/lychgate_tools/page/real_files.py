"""What a trace did, done again on real files with real system calls.

    a run of the lab      every step of every worker, performed on the engine's own port; each
                          worker has descriptors of its own, so that locks behave as they do
                          between processes; what the simulator answered is compared
    a trace of TLC        per step whatever changed in `fs`: create, write, rename, unlink, lock
    a litmus program      its calls

A power failure cannot be made with calls: where a trace has one, the files that it left are written
as they would be found. Nothing outside the directory is touched; it must be empty.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lychgate._fs import OpenMode, Status
from lychgate._op import Op
from lychgate._osfs import OsFs
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._litmus import Litmus
from lychgate_conformance.lab._run import Run
from lychgate_tools.litmus.real import Directory
from lychgate_tools.tlc.output import TraceState
from lychgate_tools.ui import ExitCode, UserError

Say = Callable[[str], None]
LIVE, AFTER = "live", "after-crash"


def prepared(path: Path) -> Path:
    """The directory for it, made if it is missing; `UserError` if it is of no use."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UserError(f"{path} is not empty: name another directory", ExitCode.USAGE)
        (path / LIVE).mkdir()
    except OSError as error:
        raise UserError(f"cannot use {path}: {error.strerror}") from error
    return path


# --- runs of the lab --------------------------------------------------------------------------


class _Worker:
    """The port of one process: the simulator's paths and descriptor numbers on real files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fs = OsFs()
        self.fds: dict[int, int] = {}

    def _path(self, path: str) -> str:
        return f"{self.root}{path}".rstrip("/")

    def open(self, path: str, mode: OpenMode) -> int:
        real = self.fs.open(self._path(path), mode)
        number = 3
        while number in self.fds:  # as the simulator numbers them
            number += 1
        self.fds[number] = real
        return number

    def close(self, fd: int) -> None:
        self.fs.close(self.fds.pop(fd))

    def read(self, fd: int, offset: int, size: int) -> bytes:
        return self.fs.read(self.fds[fd], offset, size)

    def append(self, fd: int, data: bytes) -> int:
        return self.fs.append(self.fds[fd], data)

    def overwrite(self, fd: int, offset: int, data: bytes) -> int:
        return self.fs.overwrite(self.fds[fd], offset, data)

    def truncate(self, fd: int, size: int) -> None:
        self.fs.truncate(self.fds[fd], size)

    def fsync(self, fd: int) -> None:
        self.fs.fsync(self.fds[fd])

    def status(self, fd: int) -> Status:
        return self.fs.status(self.fds[fd])

    def set_owner(self, fd: int, mode: int, uid: int, gid: int) -> None:
        """Modes only: who runs this may not give files away."""
        self.fs.set_owner(self.fds[fd], mode, os.getuid(), os.getgid())

    def is_named(self, fd: int, path: str) -> bool:
        return self.fs.is_named(self.fds[fd], self._path(path))

    def try_lock(self, fd: int) -> bool:
        return self.fs.try_lock(self.fds[fd])

    def unlock(self, fd: int) -> None:
        self.fs.unlock(self.fds[fd])

    def fsync_dir(self, path: str) -> None:
        self.fs.fsync_dir(self._path(path) or str(self.root))

    def rename(self, old: str, new: str) -> None:
        self.fs.rename(self._path(old), self._path(new))

    def unlink(self, path: str) -> None:
        self.fs.unlink(self._path(path))

    def make_dir(self, path: str) -> None:
        self.fs.make_dir(self._path(path))

    def list_dir(self, path: str) -> list[str]:
        return self.fs.list_dir(self._path(path))

    def sleep(self, seconds: float) -> None:
        """Nobody is waited for: the order of steps is given."""

    def copied(self) -> _Worker:
        """After a fork that keeps descriptors: copies of the same descriptions."""
        child = _Worker(self.root)
        for number, fd in self.fds.items():
            child.fds[number] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
            child.fs._fds.add(child.fds[number])
        return child


def run_again(run: Run, start: Image, image: Image | None, directory: Path, say: Say) -> None:
    """Take every step of a run on real files below `live`, compare, and leave what is left.

    `image` is what a host crash left; it goes to `after-crash`. Raises UserError where the real
    files end up otherwise than those of the simulator.
    """
    root = directory / LIVE
    start.write_to(root)
    workers: dict[int, _Worker] = {}
    for number, action, what in run.trace:
        worker = workers.setdefault(number, _Worker(root))
        if isinstance(what, Op):
            say(f"worker {number + 1}  {_took(worker, what)}")
        elif action.startswith("SIGKILL"):
            worker.fs.close_all()
            say(f"worker {number + 1}  {action}: its descriptors are closed")
        elif action.startswith("fork") and not run.target.closes_at_fork:
            workers[int(action.rpartition(" ")[2])] = worker.copied()
    for worker in workers.values():
        worker.fs.close_all()
    expected = cached_image(run.machine.disk).files()
    found = {str(it.relative_to(root)): it.read_bytes() for it in root.rglob("*") if it.is_file()}
    if found != expected and run.fault is None:
        other = sorted({it for it in {*found, *expected} if found.get(it) != expected.get(it)})
        raise UserError(f"real files differ from the simulator's: {', '.join(other)}")
    _leave(image, directory)


def _leave(image: Image | None, directory: Path) -> None:
    if image is not None:
        (directory / AFTER).mkdir()
        image.write_to(directory / AFTER)


def _took(worker: _Worker, op: Op[Any]) -> str:
    try:
        result = op.perform(worker)  # type: ignore[arg-type]  # facts are never asked by a step
    except OSError as error:
        return f"{op.action}: {errno.errorcode.get(error.errno or 0, '?')}"
    said = "" if result is None or isinstance(result, (bytes, Status)) else f": {result}"
    return f"{op.action}{said}"


# --- traces of TLC ----------------------------------------------------------------------------


class _Cells:
    """Inodes of the spec as real files; one descriptor each keeps them while they have no name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fds: dict[int, int] = {}
        self.holders: dict[str, int] = {}

    def close(self) -> None:
        for fd in (*self.fds.values(), *self.holders.values()):
            os.close(fd)
        self.fds.clear()
        self.holders.clear()

    def make(self, number: int, name: str) -> None:
        if number in self.fds:
            os.close(self.fds[number])
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self.fds[number] = os.open(self.root / name, flags, 0o600)

    def fill(self, number: int, old: tuple[str, ...], new: tuple[str, ...]) -> str:
        fd, before, after = self.fds[number], _bytes(old), _bytes(new)
        if after[: len(before)] == before:
            os.pwrite(fd, after[len(before) :], len(before))
            return f"write {len(after) - len(before)} bytes"
        os.ftruncate(fd, 0)
        os.pwrite(fd, after, 0)
        return f"cut, and write {len(after)} bytes"

    def lock(self, holder: str, number: int) -> bool:
        """With an open file description of its own, as the spec has it."""
        if holder not in self.holders:
            path = f"/proc/self/fd/{self.fds[number]}"
            self.holders[holder] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self.holders[holder], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self, holder: str) -> None:
        if holder in self.holders:
            os.close(self.holders.pop(holder))


def _bytes(cells: tuple[str, ...]) -> bytes:
    """Cells as text: a front is `a<`, a back `a>` and a newline."""
    return b"".join(
        b"\0" if it == "0" else f"{it}\n".encode() if it.endswith(">") else it.encode()
        for it in cells
    )


def states_again(states: tuple[TraceState, ...], directory: Path, say: Say) -> None:
    """Make every change of `fs` on real files below `live`; compare at the end."""
    root = directory / LIVE
    cells = _Cells(root)
    try:
        before: Mapping[str, Any] = {}
        for state in states:
            fs: Any = state.values["fs"]
            afresh = not before or "HostCrash" in state.action
            done = _rebuild(cells, fs) if afresh else _change(cells, before["fs"], fs)
            if state.action == "LockTry" and not done:
                done = _asked(cells, before, state.values)
            say(f"{state.action}{': ' if done else ''}{'; '.join(done)}")
            before = state.values
        _compare(root, before["fs"])
    finally:
        cells.close()


def _rebuild(cells: _Cells, fs: Any) -> list[str]:
    cells.close()
    for path in cells.root.iterdir():
        path.unlink()
    inodes = _inodes(fs)
    for name, number in sorted(fs["dir"].items()):
        if number:
            cells.make(number, name)
            cells.fill(number, (), inodes[number]["mem"])
    return ["the files as they are found"]


def _change(cells: _Cells, before: Any, fs: Any) -> list[str]:
    done: list[str] = []
    old, new = before["dir"], fs["dir"]
    taken = {number: name for name, number in old.items() if number}
    for name, number in sorted(new.items()):
        if number == old[name]:
            continue
        if number and number in taken and new[taken[number]] != number:
            os.rename(cells.root / taken[number], cells.root / name)
            done.append(f"rename {taken[number]} {name}")
        elif number:
            cells.make(number, name)
            done.append(f"create {name}")
    for name, number in sorted(old.items()):
        if number and not new[name] and number not in new.values():
            os.unlink(cells.root / name)
            done.append(f"unlink {name}")
    then, inodes = _inodes(before), _inodes(fs)
    for number in sorted(cells.fds):
        if then[number]["mem"] != inodes[number]["mem"] and _kept(fs, number):
            done.append(cells.fill(number, then[number]["mem"], inodes[number]["mem"]))
        elif then[number]["disk"] != inodes[number]["disk"] and len(inodes[number]["disk"]) == 1:
            os.fsync(cells.fds[number])
            done.append("fsync")
    for holder in sorted(fs["lk"] - before["lk"]):
        done.append(f"flock: {cells.lock(holder, fs['fd'][holder])}")
    for holder in sorted(before["lk"] - fs["lk"]):
        cells.unlock(holder)
        done.append("unlock")
    return done


def _asked(cells: _Cells, before: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """An attempt on a lock that changed nothing: refused, or granted to whoever has it already."""
    for worker, holder in sorted(values["lock"].items()):
        if before["pc"][worker] != values["pc"][worker] and holder:
            return [f"flock: {cells.lock(holder, values['fs']['fd'][holder])}"]
    return []


def _kept(fs: Any, number: int) -> bool:
    """Whether anything still leads to an inode; else the spec has freed it."""
    return number in fs["dir"].values() or number in fs["fd"].values()


def _inodes(fs: Any) -> dict[int, Any]:
    inodes = fs["ino"]
    return dict(enumerate(inodes, 1)) if isinstance(inodes, tuple) else dict(inodes)


def _compare(root: Path, fs: Any) -> None:
    inodes = _inodes(fs)
    expected = {n: _bytes(inodes[i]["mem"]) for n, i in fs["dir"].items() if i}
    found = {it.name: it.read_bytes() for it in root.iterdir()}
    if found != expected:
        raise UserError(f"real files differ from TLC's: {found} in the place of {expected}")


# --- litmus programs --------------------------------------------------------------------------


def litmus_again(litmus: Litmus, image: Image | None, directory: Path, say: Say) -> None:
    """The program's calls on real files below `live`, and what a crash may leave."""
    root = directory / LIVE
    litmus.start().write_to(root)
    real = Directory(root)
    try:
        for text, step in zip(litmus.steps.split(";"), litmus.program(), strict=True):
            real.take(step)
            say(text.strip())
    finally:
        real.close()
    _leave(image, directory)
