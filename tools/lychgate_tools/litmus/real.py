"""A litmus program on a mounted directory, and what is done between its steps.

A crash leaves what happened to be written back, so each program runs several times, and between
its steps something else pushes some of it out. None of this is part of the program: a model must
allow what the kernel may do by itself at any time.

    plain         nothing
    other-fsync   a byte is appended to an unrelated file and fsynced: a journal commit
    write-back    sync_file_range on every open file: data without metadata
    commit        a btrfs transaction commit, which its timer makes: metadata without data
    closing       every descriptor is closed after each step
    mixed-N       after each step one of these, some files written back, or nothing (seeded)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from lychgate_conformance.lab._image import DIRECTORY, Content, Image, Symlink, groups_of
from lychgate_conformance.lab._litmus import Step
from lychgate_tools.litmus import kernel
from lychgate_tools.litmus.filesystems import FileSystem

OTHER = ".other"
_NOT_OURS = {OTHER, "lost+found"}


def variants(system: FileSystem) -> list[str]:
    """What is done between steps, by name."""
    commit = ["commit"] if system.commits_apart else []
    return ["plain", "other-fsync", "write-back", *commit, "closing", "mixed-1", "mixed-2"]


class Directory:
    """A mounted directory on which a program runs; descriptors stay open until `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[int, int] = {}  # by inode

    def take(self, step: Step) -> None:
        """One step, one call."""
        verb, path = step.verb, self.root / step.path
        if verb == "create":
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._open[os.fstat(fd).st_ino] = fd
        elif verb == "append":
            fd = self._descriptor(path)
            _write(fd, step.data, os.fstat(fd).st_size)
        elif verb == "write":
            _write(self._descriptor(path), step.data, step.number)
        elif verb == "truncate":
            os.ftruncate(self._descriptor(path), step.number)
        elif verb == "fsync":
            os.fsync(self._descriptor(path))
        elif verb == "fdatasync":
            os.fdatasync(self._descriptor(path))
        elif verb in ("fsyncdir", "sync"):
            self._sync_directory(path, everything=verb == "sync")
        elif verb == "link":
            os.link(path, self.root / step.to)
        elif verb == "rename":
            os.rename(path, self.root / step.to)
        else:
            {"mkdir": os.mkdir, "rmdir": os.rmdir, "unlink": os.unlink}[verb](path)

    def _descriptor(self, path: Path) -> int:
        inode = os.stat(path).st_ino
        if inode not in self._open:
            self._open[inode] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return self._open[inode]

    def _sync_directory(self, path: Path, everything: bool = False) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if everything:
                kernel.sync_filesystem(fd)
            else:
                os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self) -> None:
        """Everything of this file system."""
        self._sync_directory(self.root, everything=True)

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    # --- between steps ------------------------------------------------------------------------

    def other_fsync(self) -> None:
        fd = os.open(self.root / OTHER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, b"o", os.fstat(fd).st_size)  # a change of size always needs the log
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_back(self, share: Callable[[], bool] = lambda: True) -> None:
        for fd in self._open.values():
            if share():
                kernel.write_back(fd)

    def commit(self) -> None:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            kernel.btrfs_commit(fd)
        finally:
            os.close(fd)


def between(variant: str, system: FileSystem, seed: str) -> Callable[[Directory], None]:
    """What a variant does after each step."""
    does: dict[str, Callable[[Directory], None]] = {
        "plain": lambda directory: None,
        "other-fsync": Directory.other_fsync,
        "write-back": Directory.write_back,
        "closing": Directory.close,
    }
    if system.commits_apart:
        does["commit"] = Directory.commit
    if variant in does:
        return does[variant]
    chance = random.Random(f"{seed} {variant}")
    some: list[Callable[[Directory], None]] = [
        *does.values(),
        lambda directory: directory.write_back(lambda: chance.random() < 0.5),
    ]
    return lambda directory: chance.choice(some)(directory)


def set_up(directory: Directory, start: Image) -> None:
    """Put a program's start on a fresh file system, durably, with the unrelated file."""
    for name in _NOT_OURS & set(os.listdir(directory.root)):
        os.rmdir(directory.root / name)  # lost+found
    start.write_to(directory.root)
    directory.other_fsync()
    directory.sync_all()


def read(root: Path) -> Image:
    """The whole tree as an image. OSError when the file system cannot read what it has."""
    found: dict[str, tuple[Content, int]] = {}
    todo = [""]
    while todo:
        prefix = todo.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                path = prefix + entry.name
                if path in _NOT_OURS:
                    continue
                found[path] = (_content(entry), entry.inode())
                if entry.is_dir(follow_symlinks=False):
                    todo.append(f"{path}/")
    paths = tuple(sorted(found))
    groups = groups_of(found[path][1] for path in paths)
    return Image(paths, tuple(found[path][0] for path in paths), groups)


def _content(entry: os.DirEntry[str]) -> Content:
    if entry.is_symlink():
        return Symlink(os.readlink(entry.path))
    return DIRECTORY if entry.is_dir() else Path(entry.path).read_bytes()


def _write(fd: int, data: bytes, offset: int) -> None:
    written = os.pwrite(fd, data, offset)
    assert written == len(data), "these file systems have room"
