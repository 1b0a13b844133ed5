"""What calls on descriptors do: open, dup, read, write, copy, truncate.

Rules of this file
  * A write has as much effect as it returned. Appends go to the end, whatever offset they name.
  * Bytes that strace does not show are known only where they come from the world itself.
"""

from __future__ import annotations

from lychgate_conformance.blackbox._effects import Effects, NotUnderstood
from lychgate_conformance.blackbox._processes import Opened
from lychgate_conformance.blackbox._strace import (
    Call,
    bytes_of,
    descriptor_of,
    flags_of,
    number_of,
    vectors_of,
)
from lychgate_conformance.lab._micro import Kind


def _open_file(
    effects: Effects, call: Call, name: str, flags: frozenset[str], at: str | None
) -> None:
    """open, openat, creat."""
    path = effects.path(call, name, at)
    real = effects.inside(descriptor_of(call.answer).path)
    thread = effects.processes.thread(call.pid)
    assert call.result is not None
    thread.table.entries.pop(call.result, None)
    if "O_TMPFILE" in flags and (path is not None or real is not None):
        raise NotUnderstood(call, "a file without a name")
    if path is None:
        if real is not None:
            raise NotUnderstood(call, f"a way into the store's directory from outside: {real}")
        return
    machine = effects.machine
    node = machine.look_up(path)
    if node is not None and node.kind is Kind.LINK:
        path = machine.resolve(path)
        node = machine.look_up(path)
    if node is None:
        if "O_CREAT" not in flags:
            raise NotUnderstood(call, f"nothing known has the name {path}")
        parent, last = machine.parent_of(path)
        node = machine.disk.create(parent, last)
    writes = bool(flags & {"O_WRONLY", "O_RDWR"})
    if "O_TRUNC" in flags and node.data:
        machine.disk.truncate(node.number, 0)
    synchronous = bool(flags & {"O_SYNC", "O_DSYNC"})
    opened = Opened(node.number, writes, "O_APPEND" in flags, synchronous)
    effects.open_as(call, opened, "O_CLOEXEC" in flags)


def open_(effects: Effects, call: Call) -> None:
    _open_file(effects, call, call.args[0], flags_of(call.args[1]), None)


def openat(effects: Effects, call: Call) -> None:
    flags = call.args[2]
    if flags.startswith("{"):  # openat2
        flags = flags.partition("flags=")[2].partition(",")[0].rstrip("}")
    _open_file(effects, call, call.args[1], flags_of(flags), call.args[0])


def creat(effects: Effects, call: Call) -> None:
    _open_file(effects, call, call.args[0], frozenset(("O_CREAT", "O_TRUNC", "O_WRONLY")), None)


def close(effects: Effects, call: Call) -> None:
    table = effects.processes.thread(call.pid).table
    table.entries.pop(descriptor_of(call.args[0]).number, None)


def close_range(effects: Effects, call: Call) -> None:
    first, last = number_of(call.args[0]), number_of(call.args[1])
    table = effects.processes.thread(call.pid).table
    for fd in [fd for fd in table.entries if first <= fd <= last]:
        if "CLOEXEC" in call.args[2]:
            table.entries[fd] = table.entries[fd][0], True
        else:
            del table.entries[fd]


def dup(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    assert call.result is not None
    effects.processes.thread(call.pid).table.entries.pop(call.result, None)
    if opened is not None:
        effects.open_as(call, opened, len(call.args) > 2 and "O_CLOEXEC" in call.args[2])


def fcntl(effects: Effects, call: Call) -> None:
    command = call.args[1]
    if command not in ("F_DUPFD", "F_DUPFD_CLOEXEC", "F_SETFL", "F_SETFD"):
        return
    opened = effects.opened(call, call.args[0])
    if opened is None:
        return
    if command == "F_SETFL":
        opened.appends = "O_APPEND" in call.args[2]
    elif command == "F_SETFD":
        table = effects.processes.thread(call.pid).table
        table.entries[descriptor_of(call.args[0]).number] = opened, "FD_CLOEXEC" in call.args[2]
    else:
        effects.open_as(call, opened, command == "F_DUPFD_CLOEXEC")


def read(effects: Effects, call: Call) -> None:
    where = call.args[0]  # a bare number, where the bytes stay out of the trace
    number = descriptor_of(where).number if "<" in where else number_of(where)
    entry = effects.processes.thread(call.pid).table.entries.get(number)
    if entry is not None and call.result is not None:
        entry[0].position += call.result


def lseek(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is not None and call.result is not None:
        opened.position = call.result


def write(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is not None:
        data = vectors_of(call.args[1]) if call.name == "writev" else bytes_of(call.args[1])
        effects.write(call, opened, data[: call.result], None)


def pwrite(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is None:
        return
    if call.name == "pwritev2" and call.args[4] != "0":
        raise NotUnderstood(call, f"the flags {call.args[4]}")
    data = bytes_of(call.args[1]) if call.name == "pwrite64" else vectors_of(call.args[1])
    offset = number_of(call.args[3])
    effects.write(call, opened, data[: call.result], None if offset < 0 else offset)


def copy(effects: Effects, call: Call) -> None:
    """sendfile(out, in, offset, count), copy_file_range(in, offset, out, offset, count, flags)."""
    out, source = (call.args[0], call.args[1]) if call.name == "sendfile" else call.args[2::-2]
    target = effects.opened(call, out)
    if target is None:
        return
    origin = effects.opened(call, source)
    if origin is None or call.result is None:
        raise NotUnderstood(call, "bytes that come from outside the store's directory")
    read_at, write_at = (call.args[2], "NULL") if call.name == "sendfile" else call.args[1:4:2]
    start = _offset(read_at)
    if start is None:
        start = origin.position
        origin.position += call.result
    data = bytes(effects.disk.nodes[origin.inode].data[start : start + call.result])
    effects.write(call, target, data, _offset(write_at))


def _offset(arg: str) -> int | None:
    """The offset that a call was given by address, `[8]` or `[8] => [16]`; None without one."""
    return None if arg == "NULL" else number_of(arg.partition("]")[0].lstrip("["))


def splice(effects: Effects, call: Call) -> None:
    if effects.opened(call, call.args[2]) is not None:
        raise NotUnderstood(call, "bytes that strace does not show")


def ftruncate(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is not None:
        effects.disk.truncate(opened.inode, number_of(call.args[1]))


def truncate(effects: Effects, call: Call) -> None:
    path = effects.path(call, call.args[0])
    if path is not None:
        node = effects.machine.look_up(effects.machine.resolve(path))
        assert node is not None, "the call worked"
        effects.disk.truncate(node.number, number_of(call.args[1]))


def fallocate(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is None:
        return
    mode, start, length = call.args[1], number_of(call.args[2]), number_of(call.args[3])
    node = effects.disk.nodes[opened.inode]
    if mode == "0":
        if start + length > len(node.data):
            effects.disk.truncate(node.number, start + length)
    elif flags_of(mode) == {"FALLOC_FL_KEEP_SIZE", "FALLOC_FL_PUNCH_HOLE"}:
        end = min(start + length, len(node.data))
        effects.disk.write(node.number, start, bytes(max(0, end - start)))
    elif mode != "FALLOC_FL_KEEP_SIZE":
        raise NotUnderstood(call, f"the mode {mode}")
