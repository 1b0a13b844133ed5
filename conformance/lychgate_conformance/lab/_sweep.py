"""Every fault of a workload: each call fails in every way that it can, once and from then on.

The calls are found by one run without a fault; the sweep then goes through them in order. It is
complete for workloads of one worker with one fiber, where a call has a number of its own; with
several workers it strikes the calls of the first one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._faults import (
    CALL_ERRORS,
    SHORT_CALLS,
    SYNC_CALLS,
    Fault,
    Lasting,
    Loss,
)
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import BOOT, find_start
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Workload

_LASTING = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE)
"""Errors of a system that is in trouble for good: from then on every call may fail."""

_HEADER = 9
"""Bytes before a line's body: a short write may end just before or after it."""


def calls_made(target: Target, workload: Workload) -> list[tuple[str, int, str]]:
    """The calls of the first worker in a run without faults: name, bytes moved, step."""
    start = find_start(workload.start)
    made: list[tuple[str, int]] = []
    with target.constants():
        run = Run(
            target,
            workload,
            Machine(start.image, boot=BOOT),
            Oracle(start.dead, start.tasks, workload.frequency),
        )
        fs = run.workers[0].fs
        fs.listen(lambda name, size: made.append((name, size)))
        while run.enabled():
            run.take(0)
        run.abandon()
    steps = [action for who, action, what in run.trace if who == 0 and hasattr(what, "perform")]
    return [(name, size, step) for (name, size), step in zip(made, steps, strict=True)]


def faults_of(
    target: Target,
    workload: Workload,
    errors: tuple[int, ...] | None = None,
    focus: frozenset[str] = frozenset(),
) -> Iterator[Fault]:
    """All faults of a workload, or those with one of these errors, in one of these steps, only."""
    for number, (name, size, step) in enumerate(calls_made(target, workload), 1):
        if focus and step not in focus:
            continue
        for code in CALL_ERRORS[name]:
            if errors is None or code in errors:
                yield from _variants(number, name, code, size)
        if name in SHORT_CALLS:
            for keep in _lengths(size):
                if keep or name == "read":
                    yield Fault(number, 0, keep)


def _variants(number: int, name: str, code: int, size: int) -> Iterator[Fault]:
    if name in SYNC_CALLS and code == errno.EIO:
        for loss in Loss:
            yield Fault(number, code, loss=loss)
            yield Fault(number, code, lasting=Lasting.CALL, loss=loss)
        yield Fault(number, code, lost=1)
        yield Fault(number, code, lost=2)
    else:
        yield Fault(number, code, loss=Loss.KEPT)
    if code in _LASTING:
        yield Fault(number, code, lasting=Lasting.ALL)
    if name in ("append", "overwrite") and code == errno.ENOSPC:
        for keep in _lengths(size):
            yield Fault(number, code, keep, Lasting.CALL)
            if keep:
                yield Fault(number, code, keep)


def _lengths(size: int) -> list[int]:
    """The short lengths worth trying (crash-semantics §6)."""
    return sorted({k for k in (0, 1, _HEADER - 1, _HEADER, size - 1) if 0 <= k < size})
