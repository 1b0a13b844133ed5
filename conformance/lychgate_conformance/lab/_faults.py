"""What can be made to go wrong in a simulated call, and which errors each call can give.

    errno      the call fails and has done nothing, except that a write may first have taken `keep`
               bytes (it then returns them, and the next call of its kind fails), and that a failed
               sync may lose what was dirty
    short      `code` 0 with `keep`: the read or write is short, and that is all
    loss       for syncs: what the failure does to what was dirty (crash-semantics §6)

Why the engine must survive each of them: requirement F2, and W9 for failed syncs. A file system
that reports a lost write only at the *next* sync (ext4 with data=journal, crash-semantics §6) lies
at the first one: that is the tier of lying flushes (`_models`), which no program can survive.
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass

NEVER = 1 << 62
"""A call number that no run reaches."""


class Loss(enum.Enum):
    """What a failed sync does to what was dirty."""

    KEPT = "kept"  # still dirty: a later sync writes it
    CLEAN = "clean"  # counted as clean: the cache shows it, no later sync writes it (ext4, xfs)
    REVERTED = "reverted"  # gone from the cache too (btrfs)


class Lasting(enum.Enum):
    """How long a fault lasts."""

    ONCE = "once"
    CALL = "call"  # every later call of the same name as well
    ALL = "all"  # every later call


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one process."""

    at: int
    """The number of the call that it strikes, from 1, counted per process."""
    code: int = 0
    keep: int = 0
    lasting: Lasting = Lasting.ONCE
    loss: Loss = Loss.CLEAN
    lost: int = -1
    """Which dirty units or names a sync loses: a bit for each in order, -1 for all."""

    def __str__(self) -> str:
        what = errno.errorcode.get(self.code, "short") if self.code else f"short by {self.keep}"
        extra = "" if self.loss is Loss.CLEAN else f", {self.loss.value}"
        return f"{what} at call {self.at} ({self.lasting.value}{extra})"


_IO = (errno.EIO,)
_PATH = (errno.EACCES, errno.EIO, errno.ENOMEM)
_SPACE = (errno.ENOSPC, errno.EDQUOT)

CALL_ERRORS: dict[str, tuple[int, ...]] = {
    "open": (*_PATH, *_SPACE, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.EINTR, errno.EPERM),
    "close": (*_IO, *_SPACE, errno.EINTR),
    "read": (*_IO, errno.EINTR),
    "append": (*_IO, *_SPACE, errno.EFBIG, errno.EINTR, errno.EROFS),
    "overwrite": (*_IO, *_SPACE, errno.EFBIG, errno.EINTR, errno.EROFS),
    "truncate": (*_IO, *_SPACE, errno.EFBIG, errno.EINTR, errno.EPERM, errno.EROFS),
    "fsync": (*_IO, *_SPACE, errno.EROFS, errno.EINTR),
    "status": (*_IO, errno.ENOMEM),
    "set_owner": (*_IO, errno.EPERM, errno.EROFS),
    "is_named": _PATH,
    "try_lock": (errno.EINTR, errno.ENOLCK),
    "unlock": (errno.EINTR, errno.ENOLCK),
    "fsync_dir": (*_PATH, *_SPACE, errno.EMFILE, errno.ENFILE, errno.EINTR),
    "rename": (*_PATH, *_SPACE, errno.EROFS, errno.EPERM, errno.EBUSY),
    "unlink": (*_PATH, errno.EROFS, errno.EPERM, errno.EBUSY),
    "make_dir": (*_PATH, *_SPACE, errno.EROFS, errno.EMLINK),
    "list_dir": (*_PATH, errno.EMFILE, errno.ENFILE),
    "sleep": (),
}
"""Every error that a call of the port can give for reasons outside the program (F2)."""

SHORT_CALLS = frozenset(("read", "append", "overwrite"))
"""Calls that may do less than they were asked to."""

SYNC_CALLS = frozenset(("fsync", "fsync_dir"))
"""Calls whose failure may lose what was dirty."""
