"""The smallest run that still breaks the same promise, its trace, and the command that replays it.

Shrinking makes the workload smaller first (fewer workers, fibers, steps; a plainer start), looking
for the same kind of violation with the same bounds; then, in the plan that is found, it puts every
choice back to 0 that can be.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._explore import Bounds, Explorer, Finding, verdict
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._fiber import Violation
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._models import Model, Order, find_model
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan
from lychgate_conformance.lab._recover import Recovery, part_of
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Workload, parse_workload

_PLAINER = ("new", "clean", "two", "old")


def shrink(finding: Finding, target: Target, bounds: Bounds) -> Finding:
    """A smaller finding of the same kind; the finding itself when there is none."""
    best = finding
    tried: set[Workload] = set()
    progress = True
    while progress:
        progress = False
        for workload in _smaller(best.plan.workload):
            if workload in tried:
                continue
            tried.add(workload)
            found = _explore(workload, best, target, bounds)
            if found is not None:
                best, progress = found, True
                break
    return _calm(best, target, bounds)


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
        faults += faults_of(target, workload, (finding.plan.fault.code,))
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


def _calm(finding: Finding, target: Target, bounds: Bounds) -> Finding:
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
            text = replay(replace(plan, phases=(phase,)), target, bounds, lambda _line: None)
        except (IndexError, LookupError):
            continue
        if text.partition(":")[0] == finding.kind:
            choices[position] = 0
            finding = Finding(text, replace(plan, phases=(phase,)))
    return finding


def command(plan: Plan) -> str:
    """The command that replays a plan."""
    return f"python -m lychgate_conformance.lab replay {shlex.quote(str(plan))}"


# --- replay -----------------------------------------------------------------------------------


def replay(plan: Plan, target: Target, bounds: Bounds, say: Callable[[str], None]) -> str:
    """Run a plan again, telling every step; the violation, empty when there is none.

    Raises LookupError when the plan's image cannot be left by its crash.
    """
    start = find_start(plan.workload.start)
    oracle = Oracle(start.dead, start.tasks, plan.workload.frequency)
    image, model = start.image, find_model(plan.model)
    with target.constants():
        for depth, phase in enumerate(plan.phases, 1):
            workload = plan.workload
            if depth > 1:
                workload = parse_workload(f"new;0;{bounds.second}")
            run = Run(
                target,
                workload,
                Machine(image, boot=f"boot-{depth}"),
                oracle,
                fault=plan.fault if depth == 1 else None,
                kills=bounds.kills if depth == 1 else 0,
                revival=bounds.revival,
                ordered=model.order is not Order.FREE,
                phase=depth,
            )
            text, left = _replay_phase(run, phase, model, target, depth, bounds.limits, say)
            if text or left is None:
                return text
            image = left
    return ""


def _replay_phase(
    run: Run,
    phase: Phase,
    model: Model,
    target: Target,
    depth: int,
    limits: Limits,
    say: Callable[[str], None],
) -> tuple[str, Image | None]:
    told = 0
    try:
        for choice in phase.choices:
            run.take(choice)
            told = _tell(run, told, say)
        if phase.how == "" and phase.image is None:
            run.check_end()
    except Violation as found:
        _tell(run, told, say)
        return str(found), None
    oracle = run.oracle
    oracle.crash()
    if phase.how == "kill":
        say("      all processes end; another one opens the store")
        outcome = Recovery(target, run.machine.boot).outcome(cached_image(run.machine.disk))
        return verdict(oracle, outcome, run.cache_was_lost), None
    if phase.image is None:
        return "", None
    image = _find_image(run, phase.image, model, limits)
    say(f"      the host crashes and leaves image {phase.image}:")
    for path, content in zip(image.paths, image.contents, strict=True):
        say(f"        {path}: {content!r}")
    text = verdict(oracle, Recovery(target, f"boot-{depth + 1}").outcome(image), True)
    return text, image


def _find_image(run: Run, digest: str, model: Model, limits: Limits) -> Image:
    for image in Enumerator(model, limits, part_of).at(run.machine.disk).images():
        if image.digest().startswith(digest):
            return image
    raise LookupError(f"no image {digest} is left by this crash under {model.name}")


def _tell(run: Run, told: int, say: Callable[[str], None]) -> int:
    for number, (worker, action, what) in enumerate(run.trace[told:], told):
        indent = "" if isinstance(what, type(None)) or hasattr(what, "perform") else "  "
        say(f"{number:4}  worker {worker}  {indent}{action}  {'' if what is None else what}")
    return len(run.trace)
