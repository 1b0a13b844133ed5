"""One worker of modules Lock and DeadTasks: a process with its dead-task store."""

from __future__ import annotations

import copy

from lychgate._dead import DeadStore
from lychgate._names import dead_data_name, dead_lock_name, staging_name
from lychgate._ops import CloseLock
from lychgate._stats import Stats
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.calls import Call

DIRECTORY = "s"
PREFIX = "p-"
FILES = {
    "live": f"/{DIRECTORY}/{dead_data_name(PREFIX)}",
    "tmp": f"/{DIRECTORY}/{staging_name(dead_data_name(PREFIX))}",
    "lock": f"/{DIRECTORY}/{dead_lock_name(PREFIX)}",
}


class Worker:
    """One process: its file system, its backend object, the calls of its fibers."""

    def __init__(self, fs: SimFs) -> None:
        self.fs = fs
        self.store = DeadStore(f"/{DIRECTORY}", PREFIX, fs, Stats())
        self.calls: dict[str, Call] = {}
        self.opened: dict[tuple[str, str], int] = {}  # (fiber, role) -> descriptor
        self.inherited: int | None = None

    def fork(self) -> Worker:
        """A child with the parent's memory and its lock's descriptor. Those of data are closed
        here and now: they carry no lock, and the spec leaves them out."""
        child = Worker(self.fs.fork(closes=False))
        child.store._lock._by_process = copy.deepcopy(self.store._lock._by_process)
        child.inherited = self.lock_fd
        for fd in [fd for fd in child.fs._fds if fd != child.inherited]:
            child.fs.close(fd)
        return child

    @property
    def lock_fd(self) -> int | None:
        """The lock's descriptor; the engine forgets it just before the step that closes it."""
        for call in self.calls.values():
            if isinstance(call.pending, CloseLock):
                return call.pending.fd
        return self.store._lock._mine().fd

    @property
    def flag(self) -> bool:
        return self.store._lock._mine().flag.locked()
