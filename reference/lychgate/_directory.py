"""Making the storage directory durable (D22)."""

from __future__ import annotations

import errno

from lychgate._op import StepError
from lychgate._ops import FsyncParent, MakeDir
from lychgate._steps import is_missing


_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP)
"""Errors by which a directory that we have not made cannot be synced, and need not be: it is
somebody else's, or on a file system that does not change or has no such call."""


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


async def make_directory(path: str) -> None:
    """Make `path` (absolute) and whatever is missing above it, each durable in its parent.

    A directory that exists may have been made by somebody who died or failed before syncing it,
    ourselves included, so every level is synced. One that others own may not be ours to open; it
    was not made by us either.
    """
    made = await _make(path)
    while path != "/":
        parent = _parent(path)
        try:
            await FsyncParent(parent)
        except StepError as error:
            if path in made or error.cause.errno not in _NOT_OURS:
                raise
        path = parent


async def _make(path: str) -> set[str]:
    """The directories that had to be made, the deepest last."""
    missing = [path]
    made: set[str] = set()
    while missing:
        try:
            await MakeDir(missing[-1])
            made.add(missing[-1])
        except StepError as error:
            if is_missing(error) and missing[-1] != "/":
                missing.append(_parent(missing[-1]))
                continue
            if error.cause.errno not in (errno.EEXIST, errno.EISDIR):
                raise
        missing.pop()
    return made
