"""How many images a second and core are judged: with recovery remembered, and without.

Judged means: enumerated, built, recovered (or its recovery remembered by what it looked at) and
held against the oracle. Seconds are CPU seconds of this process, so that what else the machine does
counts as little as it can; `loops` is a plain Python loop in the same run, to compare machines by.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._explore import verdict
from lychgate_conformance.lab._family import ImageSet
from lychgate_conformance.lab._models import PORTABLE
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._recover import Recovery, part_of
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import BOOT, find_start
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import parse_workload

WORKLOAD = "two;0;add:a,remove:p,task:t,list"
_COLD = 1500
_LOOPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Images a second and core."""

    images: int
    recoveries: int
    first_pass: float
    """Recovery is remembered from the first image on."""
    remembered: float
    """All recoveries are known."""
    cold: float
    """Every image is recovered, as a whole."""
    loops: float
    """Million iterations of an empty loop a second."""


def measure(workload: str = WORKLOAD) -> Rates:
    """Judge every image of a workload, three times."""
    target = Target()
    with target.constants():
        sets = _image_sets(target, workload)
        recovery = Recovery(target, "boot-2")
        images, first = _judge_all(sets, recovery)
        _, second = _judge_all(sets, recovery)
        pool = [(image, oracle) for found, oracle in sets for image in found.images()]
        random.Random(1).shuffle(pool)
        plain = Recovery(target, "boot-2", remembers=False)
        began = time.process_time()
        for image, oracle in pool[:_COLD]:
            assert not verdict(oracle, plain.run(image), True), "the engine is sound here"
        cold = time.process_time() - began
    began = time.process_time()
    for _ in range(_LOOPS):
        pass
    loops = _LOOPS / 1e6 / (time.process_time() - began)
    return Rates(
        images,
        recovery.done,
        images / first,
        images / second,
        min(_COLD, len(pool)) / cold,
        loops,
    )


def _image_sets(target: Target, workload: str) -> list[tuple[ImageSet, Oracle]]:
    plan = parse_workload(workload)
    start = find_start(plan.start)
    oracle = Oracle(start.dead, start.tasks, plan.frequency)
    run = Run(target, plan, Machine(start.image, boot=BOOT), oracle)
    enumerator = Enumerator(PORTABLE, part_of=part_of)
    sets: list[tuple[ImageSet, Oracle]] = []
    while run.enabled():
        run.take(0)
        crashed = run.oracle.clone()
        crashed.crash()
        sets.append((enumerator.at(run.machine.disk), crashed))
    return sets


def _judge_all(
    sets: list[tuple[ImageSet, Oracle]], recovery: Recovery
) -> tuple[int, float]:
    """How many images there were, and the seconds that they took."""
    began = time.process_time()
    count = 0
    for found, oracle in sets:
        for image in found.images():
            count += 1
            assert not verdict(oracle, recovery.outcome(image), True), "the engine is sound here"
    return count, time.process_time() - began
