"""The world of a recording: its files on a simulated disk, and the processes that change them.

Rules of this file
  * A call is ours when its path or descriptor lies in the world; all others are ignored.
  * What cannot be followed raises `NotUnderstood`, with the name of the call.
"""

from __future__ import annotations

import os

from lychgate_conformance.blackbox._processes import Opened, Processes
from lychgate_conformance.blackbox._strace import Call, descriptor_of, path_of
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._micro import Scope

SHARED_MEMORY = "-shm"
"""The end of the names of SQLite's index of a WAL: mapped, shared, and rebuilt on opening."""


class NotUnderstood(Exception):
    """A call that may change the store's files, and that this recorder cannot follow."""

    def __init__(self, call: Call, why: str) -> None:
        super().__init__(f"{call.name} (line {call.line} of the trace): {why}")
        self.call = call


class Effects:
    """A machine, who has which descriptor, and what the calls of `_calls` need of both."""

    def __init__(self, machine: Machine, world: str, processes: Processes) -> None:
        assert os.path.isabs(world) and world == os.path.normpath(world)
        self.machine = machine
        self.disk = machine.disk
        self.world = world
        self.processes = processes
        self.mapped: set[int] = set()
        """Inodes whose bytes change without a call: shared memory of SQLite."""

    # --- paths --------------------------------------------------------------------------------

    def inside(self, path: str) -> str | None:
        """The path below the world, beginning with `/`; None when it is outside."""
        if path == self.world:
            return "/"
        return path[len(self.world) :] if path.startswith(f"{self.world}/") else None

    def path(self, call: Call, arg: str, at: str | None = None) -> str | None:
        """A path argument below the world, `.` and `..` and symlinks on the way followed."""
        name = path_of(arg)
        if not os.path.isabs(name):
            base = self.processes.thread(call.pid).place.directory
            if at is not None:
                where = descriptor_of(at)
                base = where.path if where.number >= 0 else base
            name = f"{base}/{name}" if name else base
        found = self.inside(os.path.normpath(name))
        if found is None or found == "/":
            return found
        head, _, last = found.rpartition("/")
        return f"{self.machine.resolve(head or '/').rstrip('/')}/{last}"

    def opened(self, call: Call, arg: str) -> Opened | None:
        """Our description behind a descriptor; None when it leads outside."""
        where = descriptor_of(arg)
        entry = self.processes.thread(call.pid).table.entries.get(where.number)
        if entry is not None:
            return entry[0]
        if self.inside(where.path) is not None and not where.deleted:
            raise NotUnderstood(call, f"descriptor {where.number} was opened nowhere: {where.path}")
        return None

    def open_as(self, call: Call, opened: Opened, cloexec: bool) -> None:
        assert call.result is not None
        self.processes.thread(call.pid).table.entries[call.result] = opened, cloexec

    # --- bytes --------------------------------------------------------------------------------

    def write(self, call: Call, opened: Opened, data: bytes, offset: int | None) -> None:
        """Bytes at an offset, or at the position or the end."""
        node = self.disk.nodes[opened.inode]
        at = opened.position if offset is None else offset
        if opened.appends:
            at = len(node.data)
        self.disk.write(node.number, at, data)
        if offset is None:
            opened.position = at + len(data)
        if opened.synchronous:
            self.disk.sync(Scope.DATA, node.number)
