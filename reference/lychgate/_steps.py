"""Sequences of steps that more than one program needs."""

from __future__ import annotations

import errno

from lychgate._op import StepError
from lychgate._ops import AppendRecord, AppendWal, CopyWal, WriteStaging


async def append_all(
    step: type[AppendRecord | AppendWal | CopyWal | WriteStaging], fd: int, data: bytes
) -> None:
    """Append all of `data`, repeating the step after a short write (F2)."""
    while data:
        written = await step(fd, data)
        if written <= 0:
            raise StepError(step.action, OSError(errno.EIO, "the write made no progress"))
        data = data[written:]


def is_missing(error: StepError) -> bool:
    """Whether a step failed because the path names nothing."""
    return error.cause.errno == errno.ENOENT
