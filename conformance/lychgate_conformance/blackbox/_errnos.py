"""Which errors each call can have, on a local file system and on a connection: level 4's table.

Rules of this file
  * An error stands here when a program must expect it without being wrong itself: the device, the
    space, the quota, the limits, the permissions, the locks, a signal. What only a wrong argument
    brings (EBADF, EINVAL, EFAULT) does not. Sources: the calls' manual pages (man-pages 6) and
    POSIX.1-2024; EROFS on what is open already is a file system that made itself read-only after
    an error of its own (ext4 `errors=remount-ro`, an aborted journal).
  * The order is the priority: where not all are tried, the first ones are.
  * EINTR and EAGAIN happen once and not for ever: programs rightly try again.
  * On a connection every other error of a send or a receive is its end. strace only says so; the
    suite then ends the connection in earnest (`_lost`), before the program can make another call.

Left out, with the reason:
  * `close`: Linux frees the descriptor even when close fails, and strace, which fails a call by not
    making it, would leave it open. Local file systems report nothing there.
  * EAGAIN of `read` and `write`: regular files have none.
  * Short writes: an injected count would write nothing. They are had in earnest, see `_faults`.
  * EINTR of `connect`: the kernel goes on connecting, and an injected one would not.
"""

from __future__ import annotations

from dataclasses import dataclass

from lychgate_conformance.blackbox._strace import Call
from lychgate_conformance.blackbox._syscalls import RECEIVES, SENDS


@dataclass(frozen=True, slots=True)
class Errno:
    """One error of one kind of call."""

    name: str
    reason: str
    passing: bool = False
    """Whether it can only be one of a moment."""
    gives: str = ""
    """What the call gives in place of an error: a number, or `all` of what was to be sent."""
    ends: bool = False
    """Whether it is the end of its connection."""


_EIO = Errno("EIO", "the device failed")
_ENOSPC = Errno("ENOSPC", "no space is left")
_EDQUOT = Errno("EDQUOT", "the quota is used up")
_EROFS = Errno("EROFS", "the file system made itself read-only")
_EACCES = Errno("EACCES", "permissions were changed")
_EPERM = Errno("EPERM", "not for this user")
_EINTR = Errno("EINTR", "a signal came", passing=True)
_EMFILE = Errno("EMFILE", "the process has too many descriptors")
_ENFILE = Errno("ENFILE", "the system has too many open files")
_ENOMEM = Errno("ENOMEM", "the kernel has no memory")
_ENOLCK = Errno("ENOLCK", "the kernel has no memory for locks")
_EAGAIN = Errno("EAGAIN", "somebody else has the lock", passing=True)
_EMLINK = Errno("EMLINK", "the file has too many names")
_EOPNOTSUPP = Errno("EOPNOTSUPP", "the file system does not have this call")
_EXDEV = Errno("EXDEV", "the kernel does not copy between these files")

_WRITE = (_ENOSPC, _EIO, _EDQUOT, _EROFS, _EINTR)
_READ = (_EIO, _EINTR)
_NAME = (_EIO, _ENOSPC, _EACCES, _EROFS, _EDQUOT)
_GONE = (_EIO, _EACCES, _EROFS)
_LOOK = (_EACCES, _EIO, _ENOMEM)
_OPEN = (_EMFILE, _EACCES, _EIO, _ENFILE, _EINTR)
_MAKE = (_ENOSPC, _EMFILE, _EACCES, _EROFS, _EDQUOT, _EIO, _ENFILE, _EINTR)
_SYNC = (_EIO, _ENOSPC, _EDQUOT, _EROFS)
_OWNER = (_EPERM, _EIO, _EROFS)

_REFUSED = Errno("ECONNREFUSED", "no server listens")
_NO_SOCKET = Errno("ENOENT", "the server's socket is gone")
_BUSY = Errno("EAGAIN", "too many wait for the server", passing=True)
_UNREACHABLE = Errno("ENETUNREACH", "there is no way to the server")
_SLOW = Errno("ETIMEDOUT", "the server's host does not answer")
_ENOBUFS = Errno("ENOBUFS", "the kernel has no memory")
_ENOTCONN = Errno("ENOTCONN", "the server has gone already")
_SEVERED = (
    Errno("ECONNRESET", "the server has broken the connection off", ends=True),
    Errno("ETIMEDOUT", "nothing comes from the server any more", ends=True),
)
_LOST = Errno("lost", "it was sent, and never arrives", gives="all", ends=True)
_EPIPE = Errno("EPIPE", "the server has closed the connection", ends=True)
_END = Errno("end", "the server has closed the connection", gives="0", ends=True)

_BY_CALL: dict[str, tuple[Errno, ...]] = {
    **dict.fromkeys(("write", "writev", "pwrite64", "pwritev", "pwritev2"), _WRITE),
    "sendfile": (_ENOSPC, _EIO, _EDQUOT, _ENOMEM),
    "copy_file_range": (_ENOSPC, _EIO, _EDQUOT, _EOPNOTSUPP, _EXDEV),
    "fallocate": (_ENOSPC, _EOPNOTSUPP, _EIO, _EDQUOT, _EINTR),
    **dict.fromkeys(("ftruncate", "truncate"), (_EIO, _EROFS, _ENOSPC, _EINTR)),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs"), _SYNC),
    **dict.fromkeys(("rename", "renameat", "renameat2"), _NAME),
    **dict.fromkeys(("link", "linkat"), (*_NAME, _EMLINK)),
    **dict.fromkeys(("symlink", "symlinkat", "mkdir", "mkdirat"), _NAME),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), _GONE),
    **dict.fromkeys(("read", "readv", "pread64", "preadv", "preadv2"), _READ),
    **dict.fromkeys(("getdents64", "getdents"), (_EIO,)),
    **dict.fromkeys(("stat", "lstat", "newfstatat", "statx"), _LOOK),
    "fstat": (_ENOMEM, _EIO),
    **dict.fromkeys(("access", "faccessat", "faccessat2"), _LOOK),
    **dict.fromkeys(("readlink", "readlinkat"), _LOOK),
    **dict.fromkeys(("chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat"), _OWNER),
    "mmap": (_ENOMEM,),
}

OPENS = ("open", "openat", "openat2", "creat")
_RECORD_LOCKS = ("F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW")

FAILING = (*_BY_CALL, *OPENS, "flock", "fcntl")
"""Every call on files that has a row."""

_ON_CONNECTION: dict[str, tuple[Errno, ...]] = {
    "socket": (_EMFILE, _ENFILE, _ENOBUFS),
    **dict.fromkeys(SENDS, (_LOST, _EPIPE, *_SEVERED, _EINTR)),
    **dict.fromkeys(RECEIVES, (_SEVERED[0], _END, _SEVERED[1], _EINTR)),
    "shutdown": (_ENOTCONN,),
}

STAYING = frozenset(
    (
        "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate", "fsync",
        "fdatasync", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat",
        "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "flock",
    )
)  # fmt: skip
"""Calls that may fail from one moment on: strace cannot fail those of one directory alone, and the
others (`write`, `read`, `open`, …) are also how an adapter answers, listens and loads its code."""


def errnos_of(call: Call, connected: bool = False) -> tuple[Errno, ...]:
    """The errors of a call, by its arguments where they matter. `connected`: on a connection."""
    text = " ".join(call.args)
    if connected and call.name == "connect":
        other = (_NO_SOCKET, _BUSY) if "AF_UNIX" in text else (_SLOW, _UNREACHABLE)
        return (_REFUSED, *other)
    if connected:
        return _ON_CONNECTION.get(call.name, ())
    if call.name in OPENS:
        return _MAKE if call.name == "creat" or "O_CREAT" in text else _OPEN
    if call.name == "flock":
        if "LOCK_UN" in text:
            return ()  # gives up what it has, whatever happens
        return (_EAGAIN, _ENOLCK, _EINTR) if "LOCK_NB" in text else (_ENOLCK, _EINTR)
    if call.name == "fcntl":
        if call.args[1] not in _RECORD_LOCKS or "F_UNLCK" in text:
            return ()
        return (_ENOLCK, _EINTR) if call.args[1].endswith("W") else (_EAGAIN, _ENOLCK, _EINTR)
    return _BY_CALL.get(call.name, ())
