"""Campaigns: which workloads are explored, with which bounds, for how long.

A campaign has parts. A part generates all its workloads of length 1, then 2, and so on; within one
length they come in a seeded order, so that what a budget cuts off is not always the same end. Each
part tells how many workloads it finished of how many there are, and is PARTIAL when it was cut.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from lychgate_conformance.lab._explore import Bounds, Explorer, Totals
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._models import PORTABLE, Model
from lychgate_conformance.lab._starts import STARTS
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import ROTATE_NEVER, Target
from lychgate_conformance.lab._workload import (
    ALL_STEPS,
    DEAD_STEPS,
    HAND_STEPS,
    WAL_STEPS,
    Step,
    Workload,
    generate,
)

TargetMaker = Callable[[int, int], Target]
"""Makes a target, given its attempts on the lock and the size at which its WAL rotates."""

_STARTS = tuple(STARTS)
_FEW_STARTS = ("two", "torn-old", "orphan")
_SMALL_WAL = 90  # bytes: two or three records


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of workload."""

    name: str
    alphabet: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    starts: tuple[str, ...] = _STARTS
    frequency: float = 0.0
    bounds: Bounds = Bounds()
    faults: tuple[int, ...] | None = ()
    """Errors that are injected: none by default, every one that a call can give when None."""
    rotate_bytes: int = ROTATE_NEVER
    length_max: int = 3
    lock_attempts: int = 3

    def workloads(self, length: int) -> Iterator[Workload]:
        """All workloads of one length."""
        return generate(self.alphabet, length, self.shapes, self.starts, self.frequency)


_REVIVED = (Step("list"), Step("add", "z"), Step("list"))
_FORK_STEPS = ("fork", "add:a", "task:t", "done:t", "remove:p", "list", "pending")
_ONE = Bounds(preemptions=1)
_KILLED = Bounds(kills=1, revival=_REVIVED)
_HARD = (errno.EIO, errno.ENOSPC)

PARTS: tuple[Part, ...] = (
    Part("dead", (*DEAD_STEPS, "reopen"), ((1,),)),
    Part("wal", (*WAL_STEPS, "reopen"), ((1,),)),
    Part("wal-batched", (*WAL_STEPS, "tick", "wait", "reopen"), ((1,),), frequency=0.5),
    Part("rotation", WAL_STEPS, ((1,),), _FEW_STARTS, rotate_bytes=_SMALL_WAL, length_max=5),
    Part("handoff", HAND_STEPS, ((1,),)),
    Part("second-crash", ALL_STEPS, ((1,),), bounds=Bounds(depth=2), length_max=2),
    Part("fork", _FORK_STEPS, ((1,),), ("new", "two", "old"), bounds=_ONE),
    Part("fibers", DEAD_STEPS, ((2,),), _FEW_STARTS),
    Part("fibers-wal", WAL_STEPS, ((2,),), _FEW_STARTS),
    Part("workers", DEAD_STEPS, ((1, 1),), _FEW_STARTS),
    Part("time-outs", DEAD_STEPS, ((2,), (1, 1)), _FEW_STARTS, bounds=_ONE, lock_attempts=1),
    Part("workers-wal", WAL_STEPS, ((1, 1),), _FEW_STARTS, bounds=_ONE),
    Part("workers-hand", HAND_STEPS, ((1, 1),), _FEW_STARTS, bounds=_ONE),
    Part(
        "workers-and-fibers",
        DEAD_STEPS,
        ((2, 1), (1, 1, 1)),
        ("two", "old"),
        bounds=_ONE,
        length_max=4,
    ),
    Part("kills", ALL_STEPS, ((1,),), bounds=_KILLED, length_max=2),
    Part(
        "kills-beside-workers",
        DEAD_STEPS,
        ((1, 1),),
        _FEW_STARTS,
        bounds=Bounds(preemptions=1, kills=1),
        length_max=3,
    ),
    Part("rotation-kills", WAL_STEPS, ((1,),), _FEW_STARTS, 0.0, _KILLED, (), _SMALL_WAL, 3),
    Part("rotation-workers", WAL_STEPS, ((1, 1),), _FEW_STARTS, 0.0, _ONE, (), _SMALL_WAL, 3),
    Part("faults", ALL_STEPS, ((1,),), faults=None),
    Part("faults-batched", (*WAL_STEPS, "wait"), ((1,),), frequency=0.5, faults=None),
    Part("faults-rotation", WAL_STEPS, ((1,),), _FEW_STARTS, 0.0, Bounds(), None, _SMALL_WAL, 3),
    Part("faults-workers", ALL_STEPS, ((1, 1),), _FEW_STARTS, bounds=_ONE, faults=_HARD),
    Part("faults-fibers", ALL_STEPS, ((2,),), _FEW_STARTS, bounds=_ONE, faults=_HARD),
    Part("faults-kills", ALL_STEPS, ((1,),), bounds=_KILLED, faults=_HARD, length_max=2),
)
"""Everything that a nightly run goes through."""


@dataclass(slots=True)
class PartResult:
    """What became of one part."""

    name: str
    finished: dict[int, int] = field(default_factory=dict)
    planned: dict[int, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    seconds: float = 0.0

    @property
    def partial(self) -> list[str]:
        """What was left out; empty when nothing was."""
        cut = [
            f"{self.finished.get(n, 0)} of {planned} workloads of length {n}"
            for n, planned in self.planned.items()
            if self.finished.get(n, 0) < planned
        ]
        return cut + sorted(self.totals.partial)


def run_part(
    part: Part,
    make_target: TargetMaker,
    seconds: float,
    *,
    model: Model = PORTABLE,
    seed: int = 1,
    length_max: int | None = None,
    workloads_max: int | None = None,
    distinct_max: int = 0,
) -> PartResult:
    """Explore one part until it is done, out of time, or at its first findings."""
    target = make_target(part.lock_attempts, part.rotate_bytes)
    bounds = replace(part.bounds, seconds=seconds, distinct_max=distinct_max)
    explorer = Explorer(target, model, bounds)
    result = PartResult(part.name, totals=explorer.totals)
    began = time.monotonic()
    for length in range(1, (length_max or part.length_max) + 1):
        workloads = list(part.workloads(length))
        result.planned[length] = len(workloads)
        random.Random(seed).shuffle(workloads)
        for number, workload in enumerate(workloads[:workloads_max]):
            if explorer.out_of_time:
                break
            faults: list[Fault | None] = [None]
            if part.faults != ():
                faults += faults_of(target, workload, part.faults)
            explorer.explore(workload, faults)
            if not explorer.out_of_time:
                result.finished[length] = number + 1
    result.seconds = time.monotonic() - began
    return result


def find_part(name: str) -> Part:
    """The part of this name; ValueError when there is none."""
    for part in PARTS:
        if part.name == name:
            return part
    raise ValueError(f"unknown part {name!r}; known: {', '.join(part.name for part in PARTS)}")
