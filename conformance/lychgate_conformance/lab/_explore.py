"""All schedules, crash points, images and faults of a workload, up to stated bounds.

    run       replay a prefix of choices, then go on with choice 0; every other choice that the
              bounds allow becomes a prefix of its own
    crash     in every new state: every image of the model, recovered and judged by the oracle; and
              the end of all processes without a host crash
    depth 2   from some of these images: recovery and a short workload, crashed at every step again

Rules of this file
  * A state that was reached before with at least as much budget is not gone into again. States are
    equal when every object's history, every worker's history and the oracle's are.
  * An image set is enumerated once for each set of object histories, recovery is run once for each
    image content, and every distinct outcome is judged for every state.
  * A run that waits for its fault is the run without one, which was judged before it.
  * What a bound cuts is counted and named in `Totals.partial`.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from lychgate_conformance.lab._dead_history import image_contradiction
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._family import Family, Limits
from lychgate_conformance.lab._fiber import Fiber as Actor
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._calls import Violation
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._models import PORTABLE, Model, Order
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan, Setting
from lychgate_conformance.lab._recover import Outcome, Recovery, part_of
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Fiber, Workload, parse_workload


ANY = "any"

_SETS_MAX = 50_000
"""Image sets that are remembered; beyond it memory is given back and work may be done again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far exploration goes."""

    preemptions: int = 2
    kills: int = 0
    depth: int = 1
    """Crashes in a row: 2 crashes the recovery as well."""
    second_images: int = 2
    """Images per crash point from which depth 2 starts (distinct outcomes first)."""
    seconds: float = 1e9
    limits: Limits = Limits()
    revival: Fiber = ()
    """What a new process does after a kill."""
    stop_at: str = ""
    """The kind of finding after which there is nothing more to look for; `ANY` for every kind."""
    focus: frozenset[str] = frozenset()
    """Steps before which a fiber is preempted or killed; empty for all. A narrower search."""
    second: str = "list,pending,add:z,list"
    """What the first process does after a host crash, when `depth` is 2."""


@dataclass(slots=True)
class Totals:
    """What was done."""

    workloads: int = 0
    runs: int = 0
    steps: int = 0
    states: int = 0
    choices: int = 0
    images: int = 0
    """Images, summed over the distinct image sets."""
    distinct: int = 0
    """Images that differ in content from all that were counted before; 0 if nobody counts."""
    recoveries: int = 0
    judged: int = 0
    """(outcome, oracle) pairs."""
    partial: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise and the plan that shows it."""

    text: str
    plan: Plan

    @property
    def kind(self) -> str:
        return self.text.partition(":")[0]


class Enough(Exception):
    """What was looked for was found."""


class Explorer:
    """Explores workloads of one target under one model.

    `distinct` gets a hash of every image's names and contents; several explorers may share it.
    """

    def __init__(
        self,
        target: Target,
        model: Model = PORTABLE,
        bounds: Bounds = Bounds(),
        distinct: set[int] | None = None,
    ) -> None:
        self.target = target
        self.model = model
        self.bounds = bounds
        self.totals = Totals()
        self.enumerator = Enumerator(model, bounds.limits, part_of)
        depths = range(1, bounds.depth + 1)
        self.after_crash = {
            n: Recovery(target, f"boot-{n + 1}", prefers_hidden=n < bounds.depth) for n in depths
        }
        self.after_kill = {n: Recovery(target, f"boot-{n}") for n in depths}
        self._sets: dict[tuple[object, ...], dict[Outcome, Image]] = {}
        self._distinct = distinct
        self._is_found = False
        self._taken: list[int] = []
        self._spent = 0
        self._deadline = time.monotonic() + bounds.seconds

    # --- workloads --------------------------------------------------------------------------------

    def explore(self, workload: Workload, faults: Iterable[Fault | None] = (None,)) -> None:
        """One workload. The first finding of each kind is kept.

        `None` comes first among the faults: up to its strike, a run with one is the run without.
        """
        self.totals.workloads += 1
        start = find_start(workload.start)
        with self.target.constants():
            for fault in faults:
                if self._is_found:
                    break
                oracle = Oracle(start.dead, start.tasks, workload.frequency)
                plan = self._plan(workload, fault)
                with suppress(Enough):
                    self._phase(plan, start.image, oracle, 1)
        self.totals.recoveries = sum(
            r.done for r in (*self.after_crash.values(), *self.after_kill.values())
        )

    def _plan(self, workload: Workload, fault: Fault | None) -> Plan:
        bounds, limits = self.bounds, self.bounds.limits
        setting = Setting(
            bounds.kills,
            ",".join(map(str, bounds.revival)),
            bounds.second,
            self.target.lock_attempts,
            self.target.rotate_bytes,
            limits.images_max,
            limits.torn_max,
            limits.sample,
            limits.seed,
        )
        return Plan(self.target.name, self.model.name, workload, fault, (), setting)

    @property
    def is_over(self) -> bool:
        """Nothing more is to be explored: the time is over, or what was looked for was found."""
        return self.out_of_time or self._is_found

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self._deadline

    def _phase(self, plan: Plan, image: Image, oracle: Oracle, depth: int) -> None:
        """All schedules of one phase: the plan's workload, or what follows a crash."""
        base = (depth, image, tuple(sorted(image.hidden.items())))
        seen: dict[tuple[object, ...], tuple[int, int]] = {}
        todo: deque[bytes] = deque((b"",))  # first in, first out: few preemptions first
        while todo:
            if self.out_of_time:
                self.totals.partial["out of time"] += 1
                return
            prefix = todo.popleft()
            self.totals.runs += 1
            run = self._start(plan, image, oracle.clone(), depth)
            try:
                for choices in self._follow(run, prefix, seen):
                    if not run.workers[0].fs.awaits_fault:  # else the run without it was here
                        self._judge(plan, run, choices, base, depth)
                    todo.extend(map(bytes, self._alternatives(run, choices)))
                run.check_end()
            except Violation as found:
                phase = Phase(tuple(self._taken), None, "")
                self._report(plan, phase, str(found))
            finally:
                self._drop(run)

    def _start(self, plan: Plan, image: Image, oracle: Oracle, depth: int) -> Run:
        first = depth == 1
        workload = plan.workload
        if not first:
            workload = parse_workload(f"new;0;{self.bounds.second}")
        return Run(
            self.target,
            workload,
            Machine(image, boot=f"boot-{depth}", unit=self.model.unit),
            oracle,
            fault=plan.fault if first else None,
            kills=self.bounds.kills if first else 0,
            revival=self.bounds.revival,
            ordered=self.model.order is not Order.FREE,
            phase=depth,
        )

    def _follow(
        self, run: Run, prefix: bytes, seen: dict[tuple[object, ...], tuple[int, int]]
    ) -> Iterator[list[int]]:
        """Take the prefix, then go on with 0; yields in every state that is new."""
        choices: list[int] = []
        self._taken = choices
        spent = 0
        while True:
            able = run.enabled()
            if len(choices) >= len(prefix):
                key = run.key()
                budget = (self.bounds.preemptions - spent, run.kills_left)
                known = seen.get(key)
                if known is not None and known[0] >= budget[0] and known[1] >= budget[1]:
                    return
                seen[key] = budget
                self.totals.states += 1
                self._spent = spent
                yield list(choices)
            if not able:
                return
            choice = prefix[len(choices)] if len(choices) < len(prefix) else 0
            if 0 < choice < len(able) and able[0] is run.current:
                spent += 1
            choices.append(choice)
            self.totals.steps += 1
            run.take(choice)

    def _alternatives(self, run: Run, choices: list[int]) -> Iterator[list[int]]:
        able = run.enabled()
        if not able:
            return
        free = able[0] is not run.current
        if self.bounds.focus and not free and _next_step(able[0]) not in self.bounds.focus:
            return
        if free or self._spent < self.bounds.preemptions:
            for other in range(1, len(able)):
                yield [*choices, other]
        elif len(able) > 1:
            self.totals.partial[f"{self.bounds.preemptions} preemptions"] += 1
        for kill in range(len(run.kinds_of_kill(able[0]))):
            yield [*choices, len(able) + kill]

    def _drop(self, run: Run) -> None:
        try:
            run.abandon()
        except Violation as found:
            plan = self._plan(run.workload, run.fault)
            self._report(plan, Phase(tuple(self._taken), None, ""), str(found))

    # --- crashes ----------------------------------------------------------------------------------

    def _judge(
        self, plan: Plan, run: Run, choices: list[int], base: tuple[object, ...], depth: int
    ) -> None:
        oracle = run.oracle.clone()
        oracle.crash()
        image = cached_image(run.machine.disk)
        dead = self.after_kill[depth].outcome(image)
        if text := verdict(oracle, dead, run.cache_was_lost):
            self._report(plan, Phase(tuple(choices), None, "kill"), text)
        outcomes = self._outcomes(run, base, depth)
        for outcome, example in outcomes.items():
            self.totals.judged += 1
            if text := verdict(oracle, outcome, True):
                phase = Phase(tuple(choices), example.digest()[:16], "")
                self._report(plan, phase, text)
        if depth < self.bounds.depth:
            examples = sorted(outcomes.values(), key=lambda image: not image.hidden)
            chosen = examples[: self.bounds.second_images]
            if len(chosen) < len(outcomes):
                self.totals.partial[f"depth 2 from {len(chosen)} outcomes per state"] += 1
            for example in chosen:
                phase = Phase(tuple(choices), example.digest()[:16], "")
                self._second(plan.then(phase), example, oracle, depth + 1)

    def _second(self, plan: Plan, image: Image, oracle: Oracle, depth: int) -> None:
        key = (depth, image, tuple(sorted(image.hidden.items())), oracle.signature())
        if key not in self._sets:
            self._sets[key] = {}
            taken, spent = self._taken, self._spent
            self._phase(plan, image, oracle, depth)
            self._taken, self._spent = taken, spent

    def _outcomes(
        self, run: Run, base: tuple[object, ...], depth: int
    ) -> dict[Outcome, Image]:
        """The distinct outcomes of all images of this moment, each with an image that gives it."""
        key = (base, run.disk_key())
        known = self._sets.get(key)
        if known is not None:
            return known
        images = self.enumerator.at(run.machine.disk)
        if images.partial:
            self.totals.partial[images.partial] += 1
        self.totals.choices += images.choices
        found: dict[Outcome, Image] = {}
        for family in images.families:
            self.totals.images += family.size
            self._count_distinct(family)
            for outcome, image in self.after_crash[depth].outcomes(family):
                if outcome not in found:
                    found[outcome] = image()
        if len(self._sets) > _SETS_MAX:
            self._sets.clear()
        self._sets[key] = found
        return found

    def _count_distinct(self, family: Family) -> None:
        known = self._distinct
        if known is not None:
            before = len(known)
            known.update([hash((family.paths, contents)) for contents in family.combinations()])
            self.totals.distinct += len(known) - before

    def _report(self, plan: Plan, phase: Phase, text: str) -> None:
        finding = Finding(text, plan.then(phase))
        if all(known.kind != finding.kind for known in self.totals.findings):
            self.totals.findings.append(finding)
        if self.bounds.stop_at in (ANY, finding.kind):
            self._is_found = True
            raise Enough


def _next_step(fiber: Actor) -> str:
    return "" if fiber.op is None else fiber.op.action


def verdict(oracle: Oracle, outcome: Outcome, host_crashed: bool) -> str:
    """What is wrong with an outcome after a crash; empty when nothing is."""
    if outcome.error:
        return outcome.error
    return (
        image_contradiction(oracle, outcome.dead, binding=not host_crashed)
        or oracle.check_tasks(outcome.tasks, host_crashed)
        or oracle.check_custody(outcome.dead, outcome.tasks, host_crashed)
    )
