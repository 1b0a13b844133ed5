"""Sequences of steps that more than one program needs."""

from __future__ import annotations

import errno

from lychgate._op import StepError
from lychgate._ops import _Append, _Read


async def append_all(step: type[_Append], fd: int, data: bytes) -> None:
    """Append all of `data`, repeating the step after a short write (F2)."""
    while data:
        written = await step(fd, data)
        if written <= 0:
            raise StepError(step.action, OSError(errno.EIO, "the write made no progress"))
        data = data[written:]


async def read_some(step: type[_Read], fd: int, offset: int, size: int) -> bytes:
    """At least one byte of what must be there: what was not read must not pass for absent."""
    data = await step(fd, offset, size)
    if not data:
        raise StepError(step.action, OSError(errno.EIO, "the file was cut by somebody else"))
    return data


async def read_all(step: type[_Read], fd: int, offset: int, size: int) -> bytes:
    """All of what must be there, repeating the step after a short read (F2)."""
    data = await read_some(step, fd, offset, size)
    while len(data) < size:
        data += await read_some(step, fd, offset + len(data), size - len(data))
    return data


def is_missing(error: StepError) -> bool:
    """Whether a step failed because the path names nothing."""
    return error.cause.errno == errno.ENOENT
