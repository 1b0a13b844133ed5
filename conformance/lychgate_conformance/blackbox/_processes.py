"""Who has which descriptor and stands in which directory, as far as the store is concerned.

Rules of this file
  * Only descriptors of files inside the world (the directory that is recorded) are known; any
    other number means "not ours".
  * Threads share a table, a fork copies it, an exec drops what is close-on-exec. A descriptor is
    bound to an open description, and that to an inode: position and append mode are the
    description's, shared by whoever duplicated or inherited it.
  * A child's first call may be seen before the call that made it has returned, so who made whom is
    read from the whole trace first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lychgate_conformance.blackbox._strace import Call, Event

MAKERS = frozenset(("clone", "clone3", "fork", "vfork"))


@dataclass(slots=True)
class Opened:
    """An open file description on an inode of the world."""

    inode: int
    writes: bool
    appends: bool
    synchronous: bool
    position: int = 0


@dataclass(slots=True)
class Table:
    """The descriptors of one process, each with its close-on-exec flag."""

    entries: dict[int, tuple[Opened, bool]] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """The working directory of one process."""

    directory: str


@dataclass(slots=True)
class Thread:
    """A thread and what it shares."""

    table: Table
    place: Place


class Processes:
    """Every thread of a trace."""

    def __init__(self, events: Iterable[Event], directory: str) -> None:
        self._directory = directory
        self._threads: dict[int, Thread] = {}
        self._makers: dict[int, Call] = {}
        for event in events:
            if isinstance(event, Call) and event.name in MAKERS and event.worked:
                if event.result:
                    self._makers[event.result] = event

    def thread(self, pid: int) -> Thread:
        """The thread with this id; made when it is first asked for."""
        found = self._threads.get(pid)
        if found is None:
            maker = self._makers.get(pid)
            if maker is None or maker.pid == pid:
                found = Thread(Table(), Place(self._directory))
            else:
                found = _child(self.thread(maker.pid), " ".join(maker.args))
            self._threads[pid] = found
        return found

    def made(self, call: Call) -> None:
        """A call that makes threads has returned: the child's table is that of this moment."""
        if call.result:
            self.thread(call.result)

    def executed(self, pid: int) -> None:
        """The program of a process was replaced."""
        thread = self.thread(pid)
        kept = {fd: it for fd, it in thread.table.entries.items() if not it[1]}
        self._threads[pid] = Thread(Table(kept), Place(thread.place.directory))

    def gone(self, pid: int) -> None:
        self._threads.pop(pid, None)


def _child(parent: Thread, flags: str) -> Thread:
    shares_files, shares_place = "CLONE_FILES" in flags, "CLONE_FS" in flags
    return Thread(
        parent.table if shares_files else Table(dict(parent.table.entries)),
        parent.place if shares_place else Place(parent.place.directory),
    )
