"""A plan run again, step by step, and the command that does it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Protocol

from lychgate_conformance.lab._calls import Violation
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._explore import verdict
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._models import Model, Order, find_model
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan
from lychgate_conformance.lab._recover import Recovery, part_of
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import parse_workload, steps_of


def command(plan: Plan) -> str:
    """The command that replays a plan."""
    return f"lychgate replay {shlex.quote(str(plan))}"


class Watcher(Protocol):
    """Looks at a run while it is replayed; may not change it."""

    def began(self, run: Run, depth: int) -> None:
        """A phase begins."""

    def about_to(self, run: Run, choice: int) -> None:
        """A choice is about to be taken."""

    def took(self, run: Run, broken: str) -> None:
        """It was taken; `broken` is what the run itself has noticed."""

    def ended(self, run: Run, image: Image | None, text: str) -> None:
        """All processes end, and with an image the host crashes; `text` is what is wrong then."""


def replay(
    plan: Plan, target: Target, say: Callable[[str], None], watcher: Watcher | None = None
) -> str:
    """Run a plan again, telling every step; the violation, empty when there is none.

    Raises LookupError when the plan's image cannot be left by its crash.
    """
    start = find_start(plan.workload.start)
    oracle = Oracle(start.dead, start.tasks, plan.workload.frequency)
    image, model, setting = start.image, find_model(plan.model), plan.setting
    limits = Limits(setting.images_max, setting.torn_max, sample=setting.sample, seed=setting.seed)
    with target.constants():
        for depth, phase in enumerate(plan.phases, 1):
            workload = plan.workload
            if depth > 1:
                workload = parse_workload(f"new;0;{setting.second}")
            run = Run(
                target,
                workload,
                Machine(image, boot=f"boot-{depth}", unit=model.unit),
                oracle,
                fault=plan.fault if depth == 1 else None,
                kills=setting.kills if depth == 1 else 0,
                revival=steps_of(setting.revive),
                ordered=model.order is not Order.FREE,
                phase=depth,
            )
            if watcher is not None:
                watcher.began(run, depth)
            text, left = _replay_phase(run, phase, model, target, depth, limits, say, watcher)
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
    watcher: Watcher | None,
) -> tuple[str, Image | None]:
    told = 0
    try:
        for choice in phase.choices:
            if watcher is not None:
                watcher.about_to(run, choice)
            run.take(choice)
            told = _tell(run, told, say)
            if watcher is not None:
                watcher.took(run, "")
        if phase.how == "" and phase.image is None:
            run.check_end()
    except Violation as found:
        _tell(run, told, say)
        if watcher is not None:
            watcher.took(run, str(found))
        return str(found), None
    oracle = run.oracle
    oracle.crash()
    if phase.how == "kill":
        say("      all processes end; another one opens the store")
        outcome = Recovery(target, run.machine.boot).outcome(cached_image(run.machine.disk))
        text = verdict(oracle, outcome, run.cache_was_lost)
        if watcher is not None:
            watcher.ended(run, None, text)
        return text, None
    if phase.image is None:
        return "", None
    image = _find_image(run, phase.image, model, limits)
    say(f"      the host crashes and leaves image {phase.image}:")
    for path, content in zip(image.paths, image.contents, strict=True):
        say(f"        {path}: {content!r}")
    text = verdict(oracle, Recovery(target, f"boot-{depth + 1}").outcome(image), True)
    if watcher is not None:
        watcher.ended(run, image, text)
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
