"""One worker of module Wal: a process with its WAL object, and the call that is under way in it.

Between two calls the model stands in `idle` and may go on with any first step of a call. The engine
may have a call under way there as well, since one call of it is several of the model's:

    add     the first time, or after a failed fsync, is  create or rotate, then AppendWal
    add     past the size limit is                       AppendWal, then rotate

The model puts these parts in any order, and whatever comes between them. So a call that stands in
`idle` is carried on if the model's next step is its next step, and else taken away: thrown away
before its next step it has done what its parts before do, and nothing of it is left but what they
left. That is sound, since a program shares nothing with the rest but the file system and `Own`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lychgate import StorageError
from lychgate._ids import TaskIds
from lychgate._op import Op, Program
from lychgate._ops import UnlinkWal
from lychgate._stats import Stats
from lychgate._wal import Wal
from lychgate._wal_file import Own, WalFile
from lychgate_conformance.lab._disk import Description
from lychgate_conformance.lab._micro import Node
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.wal_lines import line_of

DIRECTORY = "/s"
PREFIX = "p-"
_ONE_BYTE = 1.0  # a limit that every append passes


@dataclass
class WalCall:
    """One call, between two steps.

    `failed`: a step of it failed that its caller must hear of. `by_size`: it rotates a file that is
    too large, whose failure is nobody's business.
    """

    entry: str
    program: Program[Any]
    pending: Op[Any]
    failed: bool = False
    by_size: bool = False


class WalWorker:
    """A process that runs."""

    def __init__(self, fs: SimFs, eager: bool) -> None:
        self.fs = fs
        frequency = 0.0 if eager else 1e9
        self.wal = Wal(DIRECTORY, PREFIX, frequency, fs, TaskIds(fs), Stats())
        self.call: WalCall | None = None
        self._let_go: WalFile | None = None
        self.fds: dict[str, tuple[int, str]] = {}  # own, new, cur: with their paths

    @property
    def file(self) -> WalFile | None:
        """The own file, also while a `close` is letting it go."""
        return self.own.file or self._let_go

    @property
    def own(self) -> Own:
        return self.wal._by_process.setdefault(self.fs.pid(), Own(math.inf))

    def fork(self) -> WalWorker:
        """The child has the parent's memory; what it may do with it is the engine's business."""
        child = copy.copy(self)
        child.fs = self.fs.fork()
        child.wal = self._copy(child.fs)
        child.call, child.fds, child._let_go = None, {}, None
        return child

    def _copy(self, fs: SimFs) -> Wal:
        wal = copy.copy(self.wal)
        wal._facts, wal._ids, wal._stats = fs, TaskIds(fs), Stats()
        wal._by_process = copy.deepcopy(self.wal._by_process)
        return wal

    # --- calls ----------------------------------------------------------------------------------

    def begin(self, entry: str, rotates: bool) -> None:
        """Begin a call; `rotates`: what it appends makes the file too large."""
        assert self.call is None, "one call at a time"
        self.own.limit = _ONE_BYTE if rotates else math.inf
        program = _program(self.wal, entry)
        try:
            self.call = WalCall(entry, program, program.send(None))
        except StopIteration:
            pass  # nothing to do

    def abandon(self) -> None:
        """Take a call away before its next step, see above."""
        if self.call is not None:
            self.call.program.close()
            self.call = None
        self.own.file, self._let_go = self.file, None  # of a `close` that has not yet closed
        self.own.closed = False

    def resume(self, result: object, error: OSError | None) -> object:
        """Give the call its step's result; its outcome if that was its end, else None."""
        call, file = self.call, self.own.file
        assert call is not None
        try:
            if error is None:
                call.pending = call.program.send(result)
            else:
                call.pending = call.program.throw(error)
            if self.own.file is None:
                self._let_go = self._let_go or file
            return None
        except StopIteration:
            outcome: object = True
        except StorageError as raised:
            outcome = raised
        self.call = None
        return outcome

    def end_failed_close(self) -> None:
        """Let a `close` that has failed end by itself, where this process would be killed."""
        while self.call is not None and self.call.entry == "close" and self.call.failed:
            self.resume(self.call.pending.perform(self.fs), None)

    def first_step(self, entry: str) -> Op[Any] | None:
        """The first step that a call would take now, None for no step; nothing is changed."""
        program = _program(self._copy(self.fs), entry)
        try:
            op: Op[Any] = program.send(None)
        except StopIteration:
            return None
        program.close()
        return op

    def pending_ids(self) -> set[str]:
        """What `pending_tasks` shows; all its steps are reads."""
        found: set[str] = set()
        program = self.wal.pending(lambda line: found.add(line[9:].split(b":")[1].decode("ascii")))
        result: object = None
        while True:
            try:
                result = program.send(result).perform(self.fs)
            except StopIteration:
                return found

    # --- descriptions ---------------------------------------------------------------------------

    def opened(self, role: str, fd: int, path: str) -> None:
        assert role not in self.fds, f"{role} is open already"
        self.fds[role] = fd, path

    def closed(self, fd: int) -> None:
        self.fds = {role: known for role, known in self.fds.items() if known[0] != fd}

    def adopt(self) -> None:
        """Whether the new file has become the own one is for the engine to say."""
        file = self.own.file
        if file is not None and "new" in self.fds and file.fd == self.fds["new"][0]:
            if "own" in self.fds:
                self.fds["cur"] = self.fds["own"]
            self.fds["own"] = self.fds.pop("new")

    def node(self, role: str) -> Node:
        """The inode behind a description."""
        return self.description(role).node

    def description(self, role: str) -> Description:
        return self.fs._fds[self.fds[role][0]]

    def role_of(self, op: Op[Any]) -> str:
        """The description that a step works on."""
        for role, (fd, path) in self.fds.items():
            if getattr(op, "fd", None) == fd or isinstance(op, UnlinkWal) and op.path == path:
                return role
        return ""


def _program(wal: Wal, entry: str) -> Program[Any]:
    """A call, or a part of one that the model takes by itself; a record stands for its writing."""
    if entry[0] in "+-":
        task = entry[1:]
        return wal.add(task, line_of(entry)) if entry[0] == "+" else wal.remove(task)
    parts: dict[str, Callable[[], Program[Any]]] = {
        "start": wal.start,
        "create": lambda: wal._in_turn(wal._writable),
        "rotate": lambda: wal._in_turn(wal._rotate_by_size),
        "sync": wal.sync,
        "tick": lambda: wal.tick(math.inf),
        "close": wal.close,
    }
    return parts[entry]()
