"""What each call does to the files of the world, in the words of the crash lab's recorder.

Rules of this file
  * A call that failed has no effect, but for a sync: what it was to make durable is lost until it
    is written anew, and the cache shows it as clean (crash-semantics §6, F2).
  * Whatever changes a file of the world and is not listed here, or is listed and cannot be followed
    (bytes that strace does not show, a writable shared mapping), raises `NotUnderstood` with the
    name of the call. SQLite's `-shm` is excepted: it is rebuilt on opening.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from lychgate_conformance.blackbox import _bytes
from lychgate_conformance.blackbox._effects import SHARED_MEMORY, Effects, NotUnderstood
from lychgate_conformance.blackbox._processes import MAKERS
from lychgate_conformance.blackbox._strace import Call, TraceError, descriptor_of, path_of
from lychgate_conformance.lab._disk import dirty_names, dirty_units
from lychgate_conformance.lab._micro import EntryAdd, Kind, Scope


def apply(effects: Effects, call: Call) -> None:
    """Do what a call did. NotUnderstood when that is not known."""
    if not call.worked:
        if call.name in ("fsync", "fdatasync") and call.error in LOSES:
            _lose(effects, call)
        return
    handler = _HANDLERS.get(call.name)
    if handler is None:
        raise NotUnderstood(call, "an unknown call")
    try:
        handler(effects, call)
    except TraceError as error:
        raise NotUnderstood(call, str(error)) from error
    except OSError as error:
        what = f"it worked, and by the trace it should not: {error}"
        raise NotUnderstood(call, what) from error


# --- names ------------------------------------------------------------------------------------


def _both(effects: Effects, call: Call, first: str | None, second: str | None) -> bool:
    """Whether both paths are ours; a way across the border is not understood."""
    if (first is None) != (second is None):
        raise NotUnderstood(call, "a name moves across the border of the store's directory")
    return first is not None


def _rename(effects: Effects, call: Call) -> None:
    if call.name == "rename":
        old, new = effects.path(call, call.args[0]), effects.path(call, call.args[1])
    else:
        old = effects.path(call, call.args[1], call.args[0])
        new = effects.path(call, call.args[3], call.args[2])
    if not _both(effects, call, old, new) or old is None or new is None:
        return
    if call.name == "renameat2" and call.args[4] not in ("0", "RENAME_NOREPLACE"):
        raise NotUnderstood(call, f"the flags {call.args[4]}")
    effects.machine.rename(old, new)


def _link(effects: Effects, call: Call) -> None:
    if call.name == "link":
        old, new = effects.path(call, call.args[0]), effects.path(call, call.args[1])
    else:
        old = effects.path(call, call.args[1], call.args[0])
        new = effects.path(call, call.args[3], call.args[2])
    if _both(effects, call, old, new) and old is not None and new is not None:
        node = effects.machine.look_up(old)
        assert node is not None, "the call worked"
        effects.disk.link(*effects.machine.parent_of(new), node.number)


def _unlink(effects: Effects, call: Call) -> None:
    at = call.name == "unlinkat"
    path = effects.path(call, *(call.args[1::-1] if at else call.args[:1]))
    if path is None:
        return
    if call.name == "rmdir" or (at and "AT_REMOVEDIR" in call.args[2]):
        effects.disk.unlink(*effects.machine.parent_of(path))
        effects.machine.forget_paths()
    else:
        effects.machine.unlink(path)


def _mkdir(effects: Effects, call: Call) -> None:
    at = call.name == "mkdirat"
    path = effects.path(call, *(call.args[1::-1] if at else call.args[:1]))
    if path is not None:
        effects.machine.make_dir(path)


def _symlink(effects: Effects, call: Call) -> None:
    at = call.name == "symlinkat"
    path = effects.path(call, *(call.args[2:0:-1] if at else call.args[1:2]))
    if path is None:
        return
    target = path_of(call.args[0])
    if os.path.isabs(target):
        raise NotUnderstood(call, "a symlink to an absolute path")
    parent, last = effects.machine.parent_of(path)
    effects.disk.create(parent, last, Kind.LINK, target)


def _mknod(effects: Effects, call: Call) -> None:
    at = call.name == "mknodat"
    path = effects.path(call, *(call.args[1::-1] if at else call.args[:1]))
    if path is not None:
        raise NotUnderstood(call, "a special file")


# --- syncs, mappings, processes ---------------------------------------------------------------


def _fsync(effects: Effects, call: Call) -> None:
    opened = effects.opened(call, call.args[0])
    if opened is None:
        return
    if effects.disk.nodes[opened.inode].kind is Kind.DIR:
        scope = Scope.DIR
    else:
        scope = Scope.DATA if call.name == "fdatasync" else Scope.FILE
    effects.disk.sync(scope, opened.inode)


LOSES = frozenset(("EIO", "ENOSPC", "EDQUOT", "EROFS"))
"""Errors of a sync after which the kernel tries no more."""


def _lose(effects: Effects, call: Call) -> None:
    """Of a directory the names of files: one of a directory could only be had again by removing
    what was made, which is more than is asked for (decisions)."""
    opened = effects.opened(call, call.args[0])
    if opened is None:
        return
    disk = effects.disk
    if disk.nodes[opened.inode].kind is Kind.DIR:
        made = {
            it.name
            for it in disk.log
            if isinstance(it, EntryAdd)
            and it.parent == opened.inode
            and disk.nodes[it.inode].kind is Kind.DIR
        }
        names = frozenset(dirty_names(disk, opened.inode)) - made
        disk.sync_failed(opened.inode, lost_names=names)
    else:
        disk.sync_failed(opened.inode, lost_units=frozenset(dirty_units(disk, opened.inode)))


def _sync(effects: Effects, call: Call) -> None:
    if call.name == "sync" or effects.opened(call, call.args[0]) is not None:
        effects.disk.sync(Scope.ALL)


def _mmap(effects: Effects, call: Call) -> None:
    if "PROT_WRITE" not in call.args[2] or "MAP_SHARED" not in call.args[3]:
        return
    where = descriptor_of(call.args[4])
    opened = None if where.number < 0 else effects.opened(call, call.args[4])
    if opened is None:
        return
    if not where.path.endswith(SHARED_MEMORY):
        raise NotUnderstood(call, f"a writable shared mapping of {where.path}")
    effects.mapped.add(opened.inode)


def _ioctl(effects: Effects, call: Call) -> None:
    if len(call.args) > 1 and call.args[1] in ("FIOCLEX", "FIONCLEX"):
        opened = effects.opened(call, call.args[0])
        if opened is not None:
            table = effects.processes.thread(call.pid).table
            closes = call.args[1] == "FIOCLEX"
            table.entries[descriptor_of(call.args[0]).number] = opened, closes
    elif len(call.args) > 1 and call.args[1] in ("FICLONE", "FICLONERANGE", "FIDEDUPERANGE"):
        if effects.opened(call, call.args[0]) is not None:
            raise NotUnderstood(call, f"{call.args[1]} into the store")


def _chdir(effects: Effects, call: Call) -> None:
    place = effects.processes.thread(call.pid).place
    if call.name == "fchdir":
        place.directory = descriptor_of(call.args[0]).path
    else:
        place.directory = os.path.normpath(os.path.join(place.directory, path_of(call.args[0])))


def _made(effects: Effects, call: Call) -> None:
    effects.processes.made(call)


def _executed(effects: Effects, call: Call) -> None:
    effects.processes.executed(call.pid)


def _ring(effects: Effects, call: Call) -> None:
    if call.name == "io_uring_setup" and "IORING_SETUP_SQPOLL" not in " ".join(call.args):
        return  # made by many runtimes and used by few; io_uring_enter is what counts
    raise NotUnderstood(call, "writes that no call shows")


def _stranger(effects: Effects, call: Call) -> None:
    raise NotUnderstood(call, "files are no longer where paths say")


_HANDLERS: dict[str, Callable[[Effects, Call], None]] = {
    "open": _bytes.open_, "openat": _bytes.openat, "openat2": _bytes.openat, "creat": _bytes.creat,
    "close": _bytes.close, "close_range": _bytes.close_range,
    "dup": _bytes.dup, "dup2": _bytes.dup, "dup3": _bytes.dup, "fcntl": _bytes.fcntl,
    "read": _bytes.read, "readv": _bytes.read, "lseek": _bytes.lseek,
    "write": _bytes.write, "writev": _bytes.write,
    "pwrite64": _bytes.pwrite, "pwritev": _bytes.pwrite, "pwritev2": _bytes.pwrite,
    "sendfile": _bytes.copy, "copy_file_range": _bytes.copy, "splice": _bytes.splice,
    "ftruncate": _bytes.ftruncate, "truncate": _bytes.truncate, "fallocate": _bytes.fallocate,
    "rename": _rename, "renameat": _rename, "renameat2": _rename,
    "link": _link, "linkat": _link, "unlink": _unlink, "unlinkat": _unlink, "rmdir": _unlink,
    "mkdir": _mkdir, "mkdirat": _mkdir, "symlink": _symlink, "symlinkat": _symlink,
    "mknod": _mknod, "mknodat": _mknod,
    "fsync": _fsync, "fdatasync": _fsync, "sync": _sync, "syncfs": _sync,
    "mmap": _mmap, "ioctl": _ioctl, "chdir": _chdir, "fchdir": _chdir,
    "execve": _executed, "execveat": _executed,
    "io_uring_setup": _ring, "io_uring_enter": _ring, "io_submit": _ring,
    "open_by_handle_at": _ring, "pidfd_getfd": _ring,
    "chroot": _stranger, "pivot_root": _stranger, "mount": _stranger, "umount2": _stranger,
    **dict.fromkeys(MAKERS, _made),
}  # fmt: skip

RECORDED = tuple(_HANDLERS)
"""The calls that a recording asks strace for."""

RAW = ("read", "readv")
"""Calls of which only descriptor and result matter: the bytes stay out of the trace."""

MUTATING = frozenset(
    (
        "open", "openat", "openat2", "creat", "write", "writev", "pwrite64", "pwritev", "pwritev2",
        "sendfile", "copy_file_range", "ftruncate", "truncate", "fallocate", "rename", "renameat",
        "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "symlink",
        "symlinkat", "fsync", "fdatasync", "sync", "syncfs",
    )
)  # fmt: skip
"""Calls that change what a crash may leave, where they touch the store."""
