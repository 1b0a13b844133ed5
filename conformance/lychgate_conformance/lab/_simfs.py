"""`SimFs`: the engine's `Fs` port on a simulated disk, one object per process.

Rules of this file
  * A method checks three things in this order: is the process alive, does a fault strike this call,
    would the system refuse it. Only then it changes anything.
  * Randomness and process ids are functions of the boot, the process and a count, so that a run is
    the same every time and two processes never draw the same bytes.
  * `sleep` moves no clock: what a run writes must not depend on who waited for whom. The clock is
    moved by whoever drives the run.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable

from lychgate._fs import OpenMode, Status

from lychgate_conformance.lab._contents import assemble
from lychgate_conformance.lab._disk import (
    Crashed,
    Description,
    Machine,
    dirty_names,
    dirty_units,
    failure,
)
from lychgate_conformance.lab._enumerate import read_free
from lychgate_conformance.lab._faults import NEVER, SYNC_CALLS, Fault, Lasting, Loss
from lychgate_conformance.lab._micro import Kind, Node, Scope
from lychgate_conformance.lab._models import PORTABLE

_FDS_MAX = 1024


class SimFs:
    """One process on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._disk = machine.disk
        self._fds: dict[int, Description] = {}
        self._pid = machine.new_pid()
        self._drawn = 0
        self._alive = True
        self._fault: Fault | None = None
        self._strikes_at = NEVER
        self._looks_at = NEVER  # calls before this one need no second look
        self._struck = ""
        self.calls = 0
        self.seen: set[int] = set()
        """Inodes whose bytes or size this process has looked at."""
        self._on_call: Callable[[str, int], None] | None = None
        machine.processes.append(self)

    # --- the life of a process ------------------------------------------------------------------

    def inject(self, fault: Fault | None) -> None:
        """Let one fault strike this process."""
        self._fault = fault
        self._strikes_at = NEVER if fault is None else fault.at
        self._looks_at = min(self._looks_at, self._strikes_at)
        self._struck = ""

    @property
    def struck(self) -> str:
        """The call that the fault has struck, empty as long as it has not."""
        return self._struck

    @property
    def awaits_fault(self) -> bool:
        """Whether a fault was injected and has not struck yet."""
        return self._fault is not None and not self._struck

    def kill(self) -> None:
        """SIGKILL: descriptors are closed, locks are freed, and nothing else happens."""
        self.end()
        for description in self._fds.values():
            self._machine.release(description)
        self._fds.clear()

    def fork(self, closes: bool = True) -> SimFs:
        """A child with copies of all descriptors; `closes`: its at-fork hook drops them at once."""
        child = SimFs(self._machine)
        if not closes:
            for fd, description in self._fds.items():
                description.references += 1
                child._fds[fd] = description
        return child

    def close_all(self) -> None:
        """Close every descriptor."""
        for fd in list(self._fds):
            self._machine.release(self._fds.pop(fd))

    @property
    def faulty(self) -> bool:
        """Whether a fault was injected."""
        return self._fault is not None

    def has(self, description: object) -> bool:
        """Whether a description is open here."""
        return any(found is description for found in self._fds.values())

    def descriptors(self) -> dict[int, Description]:
        """What is open here, for whoever looks at a run."""
        return dict(self._fds)

    def open_descriptors(self) -> int:
        """How many descriptors are open: none may leak."""
        return len(self._fds)

    def holds_locks(self) -> bool:
        """Whether any description of this process holds a lock."""
        return any(self._machine.locks.get(d.node.number) is d for d in self._fds.values())

    def _enter(self, name: str, size: int = 0) -> Fault | None:
        """Count a call; the fault that strikes it, unless it simply fails the call."""
        calls = self.calls = self.calls + 1
        if calls < self._looks_at:
            return None
        if not self._alive:
            raise Crashed
        if self._on_call is not None:
            self._on_call(name, size)
        return None if calls < self._strikes_at else self._strike(name)

    def end(self) -> None:
        """The machine is gone: every later call is refused."""
        self._alive = False
        self._looks_at = 0

    def listen(self, on_call: Callable[[str, int], None]) -> None:
        """Be told of every call and of the bytes that it moves."""
        self._on_call = on_call
        self._looks_at = 0

    def _strike(self, name: str) -> Fault | None:
        fault = self._fault
        assert fault is not None
        again = bool(self._struck)
        if again and fault.lasting is not Lasting.ALL and name != self._struck:
            return None
        if fault.lasting is Lasting.ONCE and (again or not (fault.keep and fault.code)):
            self._strikes_at = NEVER
        if not again:
            self._struck = name
        if name in SYNC_CALLS or name == "close":
            return fault
        if fault.keep and not again:
            return fault
        if fault.code == 0:
            return None
        raise failure(fault.code)

    def _description(self, fd: int) -> Description:
        description = self._fds.get(fd)
        if description is None:
            raise failure(errno.EBADF)
        return description

    # --- descriptors ----------------------------------------------------------------------------

    def open(self, path: str, mode: OpenMode) -> int:
        self._enter("open")
        if len(self._fds) >= _FDS_MAX:
            raise failure(errno.EMFILE, path)
        description = self._machine.open(path, mode)
        fd = 3
        while fd in self._fds:
            fd += 1
        self._fds[fd] = description
        return fd

    def close(self, fd: int) -> None:
        fault = self._enter("close")
        description = self._description(fd)
        del self._fds[fd]
        self._machine.release(description)
        if fault is not None and fault.code:
            raise failure(fault.code)  # the descriptor is gone all the same

    # --- bytes ----------------------------------------------------------------------------------

    def read(self, fd: int, offset: int, size: int) -> bytes:
        fault = self._enter("read", size)
        node = self._description(fd).node
        self.seen.add(node.number)
        data = bytes(node.data[offset : offset + size])
        return data if fault is None else data[: fault.keep]

    def append(self, fd: int, data: bytes) -> int:
        fault = self._enter("append", len(data))
        description = self._description(fd)
        if not description.writes:
            raise failure(errno.EBADF)
        if fault is not None:
            data = data[: fault.keep]
        node = description.node
        offset = len(node.data) if description.appends else description.position
        self._disk.write(node.number, offset, data)
        description.position = offset + len(data)
        return len(data)

    def overwrite(self, fd: int, offset: int, data: bytes) -> int:
        fault = self._enter("overwrite", len(data))
        description = self._description(fd)
        if not description.writes:
            raise failure(errno.EBADF)
        if fault is not None:
            data = data[: fault.keep]
        node = description.node
        if description.appends:  # as Linux has it: O_APPEND overrules the offset
            offset = len(node.data)
        self._disk.write(node.number, offset, data)
        return len(data)

    def truncate(self, fd: int, size: int) -> None:
        self._enter("truncate")
        description = self._description(fd)
        if not description.writes:
            raise failure(errno.EINVAL)
        self._disk.truncate(description.node.number, size)

    def fsync(self, fd: int) -> None:
        fault = self._enter("fsync")
        node = self._description(fd).node
        if fault is not None and fault.code:
            self._fail_sync(node, fault)
        self._disk.sync(Scope.FILE, node.number)

    def _fail_sync(self, node: Node, fault: Fault) -> None:
        disk = self._disk
        if fault.loss is Loss.REVERTED and node.kind is Kind.FILE:
            state = read_free(disk, len(disk.log), PORTABLE).files[node.number]
            raw = assemble(state, {}, disk.unit)
            disk.sync_reverted(node.number, raw[: state.size].ljust(state.size, b"\0"))
        elif fault.loss is not Loss.KEPT:
            if node.kind is Kind.DIR:
                names = dirty_names(disk, node.number)
                lost = frozenset(n for bit, n in enumerate(names) if fault.lost >> bit & 1)
                disk.sync_failed(node.number, lost_names=lost)
            else:
                units = dirty_units(disk, node.number)
                gone = frozenset(u for bit, u in enumerate(units) if fault.lost >> bit & 1)
                disk.sync_failed(node.number, lost_units=gone)
        raise failure(fault.code)

    # --- facts about descriptors ----------------------------------------------------------------

    def status(self, fd: int) -> Status:
        self._enter("status")
        node = self._description(fd).node
        self.seen.add(node.number)
        return Status(len(node.data), node.mode, node.uid, node.gid)

    def set_owner(self, fd: int, mode: int, uid: int, gid: int) -> None:
        self._enter("set_owner")
        node = self._description(fd).node
        node.mode, node.uid, node.gid = mode, uid, gid

    def is_named(self, fd: int, path: str) -> bool:
        self._enter("is_named")
        node = self._description(fd).node
        try:
            return self._machine.look_up(path) is node
        except FileNotFoundError:
            return False

    def try_lock(self, fd: int) -> bool:
        self._enter("try_lock")
        description = self._description(fd)
        holder = self._machine.locks.setdefault(description.node.number, description)
        return holder is description

    def unlock(self, fd: int) -> None:
        self._enter("unlock")
        description = self._description(fd)
        if self._machine.locks.get(description.node.number) is description:
            del self._machine.locks[description.node.number]

    # --- names ----------------------------------------------------------------------------------

    def fsync_dir(self, path: str) -> None:
        fault = self._enter("fsync_dir")
        node = self._machine.directory(path)
        if fault is not None and fault.code:
            self._fail_sync(node, fault)
        self._disk.sync(Scope.DIR, node.number)

    def rename(self, old: str, new: str) -> None:
        self._enter("rename")
        self._machine.rename(old, new)

    def unlink(self, path: str) -> None:
        self._enter("unlink")
        self._machine.unlink(path)

    def make_dir(self, path: str) -> None:
        self._enter("make_dir")
        self._machine.make_dir(path)

    def list_dir(self, path: str) -> list[str]:
        self._enter("list_dir")
        return sorted(self._machine.directory(path).entries)

    def sleep(self, seconds: float) -> None:
        self._enter("sleep")

    # --- facts ----------------------------------------------------------------------------------

    def resolve(self, path: str) -> str:
        return self._machine.resolve(path)

    def now(self) -> float:
        return self._machine.clock

    def random(self, size: int) -> bytes:
        self._drawn += 1
        seed = f"{self._machine.boot}/{self._pid}/{self._drawn}".encode("ascii")
        return hashlib.shake_128(seed).digest(size)

    def pid(self) -> int:
        return self._pid

    def boot(self) -> str:
        return self._machine.boot
