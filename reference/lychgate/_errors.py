"""Every error that the engine raises on purpose. One root, a remedy in each message.

`definite` is the one thing that a caller must know after a failure:
  * True: nothing happened; the call may be repeated as it is.
  * False: it may have happened; whoever repeats it must allow for a duplicate (D17, D19).
"""

from __future__ import annotations

import errno as _errno


class LychgateError(Exception):
    """The root of all errors of this package."""

    definite: bool = True


class ConfigError(LychgateError, ValueError):
    """An option has a value that cannot be meant; nothing was opened."""


class UnsupportedPlatform(LychgateError):
    """The engine cannot keep its promises on this system (F1)."""


class ClosedError(LychgateError):
    """The backend was closed; open a new one."""


class Refused(LychgateError, ValueError):
    """The task or record cannot be stored (too large, not encodable); nothing was written (D25)."""


class DeadTasksLockTimeout(LychgateError, TimeoutError):
    """The dead-task store stayed locked for the whole waiting time; it is unchanged (D14)."""


class StorageError(LychgateError, OSError):
    """A call on the file system failed (F2).

    `action` is the step that failed, `errno` the system's reason, `filename` the file, and
    `definite` says whether the operation may have taken effect all the same.
    """

    def __init__(self, action: str, cause: OSError, path: str, definite: bool) -> None:
        code = cause.errno or 0
        what = "nothing was changed" if definite else "the change may or may not have happened"
        remedy = _REMEDIES.get(code, "mend the cause and call again")
        self._reason = cause.strerror or str(cause)
        super().__init__(code, f"{self._reason} in {action}: {what}; {remedy}", path)
        self.action = action
        self.definite = definite

    def __reduce__(self) -> tuple[object, ...]:  # to travel between processes
        cause = OSError(self.errno, self._reason)
        return type(self), (self.action, cause, self.filename, self.definite)


_REMEDIES = {
    _errno.ENOSPC: "free space on the device and call again",
    _errno.EDQUOT: "raise the quota or free space and call again",
    _errno.EMFILE: "raise the limit of open files (ulimit -n) and call again",
    _errno.ENFILE: "raise the system's limit of open files and call again",
    _errno.EACCES: "give this user access to the path and call again",
    _errno.EPERM: "give this user access to the path and call again",
    _errno.EROFS: "make the file system writable and call again",
    _errno.EIO: "look at the kernel log: the device failed; acknowledged records are kept",
    _errno.ENOENT: "make the directory again, or open the backend anew",
    _errno.ENOTDIR: "a file stands where a directory belongs: move it away",
    _errno.EISDIR: "a directory stands where a file belongs: move it away",
    _errno.ELOOP: "a symlink stands where a file belongs: move it away",
}
