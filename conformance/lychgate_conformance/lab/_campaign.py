"""Campaigns: which workloads are explored, with which bounds, for how long.

A campaign has parts. A part generates all its workloads of length 1, then 2, and so on; within one
length they come in a seeded order, so that what a budget cuts off is not always the same end. Each
part tells how many workloads it finished of how many there are, and is PARTIAL when it was cut.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lychgate_conformance.lab._explore import Bounds, Explorer, Totals
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._models import PORTABLE, Model, find_model
from lychgate_conformance.lab._starts import STARTS
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import ROTATE_NEVER, Target
from lychgate_conformance.lab._workload import (
    ALL_STEPS,
    DEAD_STEPS,
    HAND_STEPS,
    QUEUE_STEPS,
    WAL_STEPS,
    Step,
    Workload,
    generate,
)

TargetMaker = Callable[[int, int], Target]
"""Makes a target, given its attempts on the lock and the size at which its WAL rotates."""

_STARTS = tuple(STARTS)
_FEW_STARTS = ("two", "torn-old", "orphan")
_SMALL_WAL = 35  # bytes: the second record makes the file too large


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
    knob: str = ""
    """What is put behind the name of the model (`_models.KNOBS`)."""
    only: Workload | None = None
    """The one workload of a part that somebody asked for by name."""

    def workloads(self, length: int) -> Iterator[Workload]:
        """All workloads of one length."""
        if self.only is not None:
            return iter((self.only,))
        return generate(self.alphabet, length, self.shapes, self.starts, self.frequency)


_REVIVED = (Step("list"), Step("add", "z"), Step("list"))
_FORK_STEPS = ("fork", "add:a", "task:t", "done:t", "remove:p", "list", "pending")
_ONE = Bounds(preemptions=1)
_KILLED = Bounds(kills=1, revival=_REVIVED)
_QUEUE_FIBERS = ("put:j", "put:k", "run", "fail", "flaky", "back:j")  # one start at a time
_LOADED = Bounds(kills=1, revival=(Step("load"), Step("run")))
_HARD = (errno.EIO, errno.ENOSPC)

PARTS: tuple[Part, ...] = (
    Part("dead", (*DEAD_STEPS, "reopen"), ((1,),)),
    Part("wal", (*WAL_STEPS, "reopen"), ((1,),)),
    Part("wal-batched", (*WAL_STEPS, "tick", "wait", "reopen"), ((1,),), frequency=0.5),
    Part("rotation", WAL_STEPS, ((1,),), _FEW_STARTS, rotate_bytes=_SMALL_WAL, length_max=5),
    Part(
        "rotation-batched",
        (*WAL_STEPS, "wait"),
        ((1,),),
        _FEW_STARTS,
        0.5,
        rotate_bytes=_SMALL_WAL,
        length_max=4,
    ),
    Part("handoff", HAND_STEPS, ((1,),)),
    Part("queue", QUEUE_STEPS, ((1,),), ("new", "two", "damaged"), length_max=5),
    Part("queue-batched", (*QUEUE_STEPS, "wait"), ((1,),), ("new", "two"), 0.5, length_max=5),
    Part("queue-fibers", _QUEUE_FIBERS, ((2,),), ("new", "two"), bounds=_ONE),
    Part("queue-kills", QUEUE_STEPS, ((1,),), ("new", "two"), bounds=_LOADED),
    Part("queue-faults", QUEUE_STEPS, ((1,),), ("new",), faults=_HARD),
    Part("small-units", ALL_STEPS, ((1,),), ("two", "torn-old", "edge"), knob="+512"),
    Part(
        "byte-units",
        ALL_STEPS,
        ((1,),),
        ("clean",),
        bounds=Bounds(limits=Limits(images_max=300, sample=50)),
        length_max=2,
        knob="+1",
    ),
    Part("garbage", ALL_STEPS, ((1,),), ("two", "torn-old", "edge"), knob="+garbage"),
    Part("second-crash", ALL_STEPS, ((1,),), bounds=Bounds(depth=2), length_max=2),
    Part("fork", _FORK_STEPS, ((1,),), ("new", "two", "old"), bounds=_ONE),
    Part(
        "fork-kills",
        _FORK_STEPS,
        ((1,),),
        ("new", "two"),
        bounds=Bounds(preemptions=1, kills=1),
        length_max=2,
    ),
    Part("fibers", DEAD_STEPS, ((2,),), _FEW_STARTS),
    Part("fibers-wal", WAL_STEPS, ((2,),), _FEW_STARTS),
    Part("workers", DEAD_STEPS, ((1, 1),), _FEW_STARTS),
    Part(
        "time-outs",
        DEAD_STEPS,
        ((2,), (1, 1), (2, 1)),
        _FEW_STARTS,
        bounds=_ONE,
        lock_attempts=1,
    ),
    Part("lock-file", (*DEAD_STEPS, "lose-lock", "reopen"), ((1,), (1, 1)), ("two", "old")),
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
    Part(
        "workers-and-fibers-wal",
        WAL_STEPS,
        ((2, 1), (1, 1, 1)),
        ("two",),
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
    Part(
        "faults-small-units",
        ("add:a", "add:b", "remove:p", "task:t", "done:t", "list"),
        ((1,),),
        ("aligned", "edge"),
        faults=(errno.EIO,),
        knob="+512",
    ),
    Part("faults-rotation", WAL_STEPS, ((1,),), _FEW_STARTS, 0.0, Bounds(), None, _SMALL_WAL, 3),
    Part("faults-workers", ALL_STEPS, ((1, 1),), _FEW_STARTS, bounds=_ONE, faults=_HARD),
    Part("faults-fibers", ALL_STEPS, ((2,),), _FEW_STARTS, bounds=_ONE, faults=_HARD),
    Part("faults-kills", ALL_STEPS, ((1,),), bounds=_KILLED, faults=_HARD, length_max=2),
)
"""Everything that a nightly run goes through."""


@dataclass(slots=True)
class PartResult:
    """What became of one part."""

    part: Part
    finished: dict[int, int] = field(default_factory=dict)
    planned: dict[int, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def partial(self) -> list[str]:
        """What was left out; empty when nothing was."""
        cut = [
            f"{self.finished.get(n, 0)} of {planned} workloads of length {n}"
            for n, planned in self.planned.items()
            if self.finished.get(n, 0) < planned
        ]
        longer = [f"nothing of length {n}" for n in self._lengths() if n not in self.planned]
        return cut + longer + sorted(self.totals.partial)

    def _lengths(self) -> range:
        return range(1, self.part.length_max + 1)


@dataclass(frozen=True, slots=True)
class Search:
    """How parts are to be explored."""

    model: Model = PORTABLE
    seed: int = 1
    """Of the order in which the workloads of one length come."""
    make_target: TargetMaker = Target
    distinct: set[int] | None = None
    """Where images that differ in content are counted, if they are."""
    watch: Callable[[PartResult], None] = lambda _result: None
    """Is told after every workload."""


def run_part(
    part: Part,
    search: Search,
    seconds: float,
    *,
    length_max: int | None = None,
    workloads_max: int | None = None,
) -> PartResult:
    """Explore one part until it is done, out of time, interrupted, or at what it looks for."""
    target = search.make_target(part.lock_attempts, part.rotate_bytes)
    bounds = replace(part.bounds, seconds=seconds)
    model = find_model(search.model.name + part.knob)
    explorer = Explorer(target, model, bounds, search.distinct)
    result = PartResult(part, totals=explorer.totals)
    began = time.monotonic()
    try:
        for length in range(1, (length_max or part.length_max) + 1):
            if explorer.is_over:
                break
            workloads = list(part.workloads(length))
            result.planned[length] = len(workloads)
            random.Random(search.seed).shuffle(workloads)
            for number, workload in enumerate(workloads[:workloads_max]):
                explorer.explore(workload, _faults(part, target, workload))
                if explorer.is_over:
                    break
                result.finished[length] = number + 1
                result.seconds = time.monotonic() - began
                search.watch(result)
    except KeyboardInterrupt:
        result.interrupted = True
        explorer.totals.partial["interrupted"] += 1
    result.seconds = time.monotonic() - began
    return result


def _faults(part: Part, target: Target, workload: Workload) -> list[Fault | None]:
    found: list[Fault | None] = [None]
    if part.faults != ():
        found += faults_of(target, workload, part.faults, part.bounds.focus)
    return found


def run_parts(parts: Sequence[Part], search: Search, seconds: float) -> Iterator[PartResult]:
    """Explore parts one after another; what one of them leaves of its time goes to the others."""
    deadline = time.monotonic() + seconds
    for number, part in enumerate(parts):
        left = max(0.0, deadline - time.monotonic())
        result = run_part(part, search, left / (len(parts) - number))
        yield result
        if result.interrupted:
            return


def find_part(name: str) -> Part:
    """The part of this name; ValueError when there is none."""
    for part in PARTS:
        if part.name == name:
            return part
    raise ValueError(f"unknown part {name!r}; known: {', '.join(part.name for part in PARTS)}")
