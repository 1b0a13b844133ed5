"""The smallest run that still breaks the same promise.

Shrinking makes the workload smaller first (fewer workers, fibers, steps; a plainer start), looking
for the same kind of violation with the same bounds; then, in the plan that is found, it puts every
choice back to 0 that can be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from lychgate_conformance.lab._explore import Bounds, Explorer, Finding
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._models import find_model
from lychgate_conformance.lab._replay import replay
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Workload

_PLAINER = ("new", "clean", "two", "old")


def shrink(finding: Finding, target: Target, bounds: Bounds) -> Finding:
    """A smaller finding of the same kind, as far as the seconds of the bounds go; else the same."""
    best = finding
    tried: set[Workload] = set()
    deadline = time.monotonic() + bounds.seconds
    progress = True
    while progress:
        progress = False
        for workload in _smaller(best.plan.workload):
            left = deadline - time.monotonic()
            if workload in tried or left <= 0:
                continue
            tried.add(workload)
            found = _explore(workload, best, target, replace(bounds, seconds=left))
            if found is not None:
                best, progress = found, True
                break
    return _calm(best, target)


def _smaller(workload: Workload) -> Iterator[Workload]:
    """The workload with one thing left out, or with a plainer start."""
    workers = workload.workers
    for w, worker in enumerate(workers):
        if len(workers) > 1:
            yield replace(workload, workers=workers[:w] + workers[w + 1 :])
        for f, fiber in enumerate(worker):
            if len(worker) > 1:
                fewer = worker[:f] + worker[f + 1 :]
                yield replace(workload, workers=(*workers[:w], fewer, *workers[w + 1 :]))
            for s in range(len(fiber)):
                shorter = (*worker[:f], fiber[:s] + fiber[s + 1 :], *worker[f + 1 :])
                yield replace(workload, workers=(*workers[:w], shorter, *workers[w + 1 :]))
    for start in _PLAINER:
        if start == workload.start:
            break
        yield replace(workload, start=start)


def _explore(
    workload: Workload, finding: Finding, target: Target, bounds: Bounds
) -> Finding | None:
    """A finding of the same kind in this workload, with as few preemptions as possible."""
    faults: list[Fault | None] = [None]
    if finding.plan.fault is not None:
        faults += faults_of(target, workload, (finding.plan.fault.code,), bounds.focus)
    for preemptions in range(bounds.preemptions + 1):
        narrow = replace(bounds, preemptions=preemptions, stop_at=finding.kind)
        explorer = Explorer(target, find_model(finding.plan.model), narrow)
        explorer.explore(workload, faults)
        for found in explorer.totals.findings:
            if found.kind == finding.kind:
                return found
        if not explorer.totals.partial[f"{preemptions} preemptions"]:
            return None
    return None


def _calm(finding: Finding, target: Target) -> Finding:
    """Put choices of the first phase back to 0, one at a time, as long as it still fails."""
    plan = finding.plan
    if len(plan.phases) != 1:
        return finding
    choices = list(plan.phases[0].choices)
    for position, choice in enumerate(choices):
        if choice == 0:
            continue
        calmer = (*choices[:position], 0, *choices[position + 1 :])
        phase = replace(plan.phases[0], choices=calmer)
        try:
            text = replay(replace(plan, phases=(phase,)), target, lambda _line: None)
        except (IndexError, LookupError):
            continue
        if text.partition(":")[0] == finding.kind:
            choices[position] = 0
            finding = Finding(text, replace(plan, phases=(phase,)))
    return finding
