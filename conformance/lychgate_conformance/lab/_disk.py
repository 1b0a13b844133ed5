"""One simulated disk and the machine around it: paths, open descriptions, locks, clock, boot id.

Rules of this file
  * What a call does to bytes and names is the recorder's business; what it refuses, and whom a
    descriptor or a lock belongs to, is this file's. Source: the Linux manual pages.
  * A descriptor is bound to an inode, never to a path. A lock belongs to an open file description,
    which a fork shares; it stays with its inode through rename and unlink.
  * A machine that has crashed refuses every later call with `Crashed`, which no program catches by
    accident: clean-up code cannot run.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol

from lychgate._fs import OpenMode

from lychgate_conformance.lab._image import Image, image_of
from lychgate_conformance.lab._micro import (
    BLOCK_BYTES,
    ROOT,
    EntryAdd,
    EntryDrop,
    Kind,
    Node,
    Recorder,
    Rename,
    Scope,
    Sync,
    SyncFailed,
    UnitWrite,
)

_NAME_BYTES_MAX = 255
_LINKS_MAX = 40

_WRITES = {
    OpenMode.READ: False,
    OpenMode.APPEND: True,
    OpenMode.CREATE_NEW: True,
    OpenMode.LOCK: True,
}


class Crashed(BaseException):
    """The process or the machine is gone: nothing that it does has an effect any more."""


def failure(code: int, path: str | None = None) -> OSError:
    """The `OSError` of a failed call."""
    return OSError(code, os.strerror(code), path)


class Description:
    """An open file description: shared by descriptors that a fork has copied."""

    __slots__ = ("node", "writes", "appends", "position", "references")

    def __init__(self, node: Node, mode: OpenMode) -> None:
        self.node = node
        self.writes = _WRITES[mode]
        self.appends = mode in (OpenMode.APPEND, OpenMode.CREATE_NEW)
        self.position = 0
        self.references = 1


class Process(Protocol):
    """What a machine knows of its processes."""

    def end(self) -> None: ...


class Machine:
    """A disk that several processes share, from one mount to the next crash."""

    def __init__(
        self, image: Image | None = None, *, boot: str = "boot-1", unit: int = BLOCK_BYTES
    ) -> None:
        self.disk: Recorder = (image or image_of({})).mount(unit)
        self.boot = boot
        self.clock = 1_700_000_000.0  # only ever moved by whoever drives a run
        self.processes: list[Process] = []
        self.locks: dict[int, Description] = {}
        self.pids = 0
        self._dirs: dict[str, int] = {"": ROOT, "/": ROOT}
        self._nodes_seen = 0
        self._links = False

    def crash(self) -> None:
        """The host is gone: no process can do anything any more."""
        for process in self.processes:
            process.end()

    def new_pid(self) -> int:
        self.pids += 1
        return 100 + self.pids

    # --- paths ----------------------------------------------------------------------------------

    def parent_of(self, path: str) -> tuple[int, str]:
        """The directory that holds the last part of a path, and that part."""
        head, _, name = path.rpartition("/")
        parent = self._dirs.get(head)
        if parent is None:
            parent = self._walk(head)
            if self.disk.nodes[parent].kind is not Kind.DIR:
                raise failure(errno.ENOTDIR, path)
            self._dirs[head] = parent
        if len(name) > 63 and len(os.fsencode(name)) > _NAME_BYTES_MAX:
            raise failure(errno.ENAMETOOLONG, path)
        return parent, name

    def look_up(self, path: str) -> Node | None:
        """What a path names, its last part not followed; None when it names nothing."""
        parent, name = self.parent_of(path)
        inode = self.disk.nodes[parent].entries.get(name)
        if inode is None:
            return self.disk.nodes[parent] if not name else None
        return self.disk.nodes[inode]

    def has_dir(self, path: str) -> bool:
        """Whether a path names a directory."""
        try:
            return self.directory(path).kind is Kind.DIR
        except OSError:
            return False

    def _plain(self, path: str) -> str:
        """The path with symlinks followed but for its last part."""
        head, _, name = path.rpartition("/")
        return f"{self.resolve(head or '/').rstrip('/')}/{name}"

    def _has_links(self) -> bool:
        if self._nodes_seen != len(self.disk.nodes):
            self._nodes_seen = len(self.disk.nodes)
            self._links = any(node.kind is Kind.LINK for node in self.disk.nodes.values())
        return self._links

    def forget_paths(self) -> None:
        """Directories or symlinks have moved."""
        self._dirs = {"": ROOT, "/": ROOT}

    def _walk(self, path: str) -> int:
        resolved = self.resolve(path)
        number = ROOT
        for part in filter(None, resolved.split("/")):
            node = self.disk.nodes[number]
            if node.kind is not Kind.DIR:
                raise failure(errno.ENOTDIR, path)
            found = node.entries.get(part)
            if found is None:
                raise failure(errno.ENOENT, path)
            number = found
        return number

    def resolve(self, path: str) -> str:
        """The path with every symlink followed; parts that do not exist stay as they are."""
        if not self._has_links() and "/." not in path and "//" not in path and path[:1] == "/":
            return path.rstrip("/") or "/"
        todo = [part for part in reversed(path.split("/")) if part and part != "."]
        done: list[str] = []
        numbers: list[int | None] = [ROOT]
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if done:
                    done.pop()
                    numbers.pop()
                continue
            number = numbers[-1]
            found = None if number is None else self.disk.nodes[number].entries.get(part)
            node = None if found is None else self.disk.nodes[found]
            if node is not None and node.kind is Kind.LINK:
                links += 1
                if links > _LINKS_MAX:
                    raise failure(errno.ELOOP, path)
                if node.target.startswith("/"):
                    done, numbers = [], [ROOT]
                todo += [part for part in reversed(node.target.split("/")) if part not in ("", ".")]
                continue
            done.append(part)
            numbers.append(found)
        return "/" + "/".join(done)

    # --- descriptions and locks -----------------------------------------------------------------

    def open(self, path: str, mode: OpenMode) -> Description:
        parent, name = self.parent_of(path)
        disk = self.disk
        inode = disk.nodes[parent].entries.get(name)
        if inode is None:
            if not name or name in (".", ".."):
                raise failure(errno.EISDIR, path)
            if mode is OpenMode.READ or mode is OpenMode.APPEND:
                raise failure(errno.ENOENT, path)
            return Description(disk.create(parent, name), mode)
        if mode is OpenMode.CREATE_NEW:
            raise failure(errno.EEXIST, path)
        node = disk.nodes[inode]
        if node.kind is Kind.LINK:
            raise failure(errno.ELOOP, path)  # O_NOFOLLOW
        if node.kind is Kind.DIR:
            raise failure(errno.EISDIR, path)
        return Description(node, mode)

    def release(self, description: Description) -> None:
        """One descriptor of a description is gone; with the last one goes its lock."""
        description.references -= 1
        if description.references == 0:
            number = description.node.number
            if self.locks.get(number) is description:
                del self.locks[number]

    # --- names ----------------------------------------------------------------------------------

    def rename(self, old: str, new: str) -> None:
        parent, name = self.parent_of(old)
        to_parent, to_name = self.parent_of(new)
        nodes = self.disk.nodes
        inode = nodes[parent].entries.get(name)
        if inode is None:
            raise failure(errno.ENOENT, old)
        source = nodes[inode]
        number = nodes[to_parent].entries.get(to_name)
        target = None if number is None else nodes[number]
        here, there = f"{self._plain(old)}/", f"{self._plain(new)}/"
        if here.startswith(there) and source is not target:
            raise failure(errno.ENOTEMPTY, new)
        if source.kind is Kind.DIR:
            self.forget_paths()
            if there.startswith(here) and source is not target:
                raise failure(errno.EINVAL, old)
        if target is not None and target is not source:
            if target.kind is Kind.DIR and source.kind is not Kind.DIR:
                raise failure(errno.EISDIR, new)
            if target.kind is not Kind.DIR and source.kind is Kind.DIR:
                raise failure(errno.ENOTDIR, new)
            if target.kind is Kind.DIR and target.entries:
                raise failure(errno.ENOTEMPTY, new)
        self.disk.rename(parent, name, to_parent, to_name)

    def unlink(self, path: str) -> None:
        parent, name = self.parent_of(path)
        inode = self.disk.nodes[parent].entries.get(name)
        if inode is None:
            raise failure(errno.ENOENT if name else errno.EISDIR, path)
        if self.disk.nodes[inode].kind is Kind.DIR:
            raise failure(errno.EISDIR, path)
        if self.disk.nodes[inode].kind is Kind.LINK:
            self.forget_paths()
        self.disk.unlink(parent, name)

    def make_dir(self, path: str) -> None:
        parent, name = self.parent_of(path)
        if not name or name in self.disk.nodes[parent].entries:
            raise failure(errno.EEXIST, path)
        self.disk.create(parent, name, Kind.DIR).mode = 0o700

    def directory(self, path: str) -> Node:
        """The directory that a path names, symlinks followed."""
        node = self.look_up(path)
        if node is not None and node.kind is Kind.LINK:
            node = self.look_up(self.resolve(path))
        if node is None:
            raise failure(errno.ENOENT, path)
        if node.kind is not Kind.DIR:
            raise failure(errno.ENOTDIR, path)
        return node


def dirty_units(disk: Recorder, inode: int) -> list[int]:
    """The units of a file that were written since it was last synced or failed to be."""
    found: set[int] = set()
    for op in reversed(disk.log):
        if isinstance(op, UnitWrite) and op.inode == inode:
            found.add(op.unit)
        elif isinstance(op, Sync) and (op.scope is Scope.ALL or op.inode == inode):
            break
        elif isinstance(op, SyncFailed) and op.inode == inode:
            break
    return sorted(found)


def dirty_names(disk: Recorder, directory: int) -> list[str]:
    """The names of a directory that changed since it was last synced or failed to be."""
    found: set[str] = set()
    for op in reversed(disk.log):
        if isinstance(op, (EntryAdd, EntryDrop)) and op.parent == directory:
            found.add(op.name)
        elif isinstance(op, Rename) and directory in (op.parent, op.to_parent):
            found |= {op.name, op.to_name}
        elif isinstance(op, Sync) and (op.scope is Scope.ALL or op.inode == directory):
            break
        elif isinstance(op, SyncFailed) and op.inode == directory:
            break
    return sorted(found)
