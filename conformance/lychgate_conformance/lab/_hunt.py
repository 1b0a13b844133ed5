"""Hunting mutants: which of them the lab kills, how, and after how much work.

    led     a mutant's own part and workload: the run that is known to show it
    free    all parts of the campaign in order, a share of the budget each, without a hint

A kill is any finding of the explorer. A mutant that neither shows is a survivor: either the lab is
blind there, or the mutant changes nothing that anybody was promised. The engine without a fault
must survive the same runs (`control`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

from lychgate_conformance.lab._campaign import PARTS, Part, Search, find_part, run_parts
from lychgate_conformance.lab._explore import ANY, Explorer, Finding
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._models import PORTABLE, find_model
from lychgate_conformance.lab._mutant import Mutant, MutantTarget
from lychgate_conformance.lab._mutants_dead import DEAD_MUTANTS
from lychgate_conformance.lab._mutants_lock import LOCK_MUTANTS, MARK_MUTANTS
from lychgate_conformance.lab._mutants_queue import QUEUE_MUTANTS
from lychgate_conformance.lab._mutants_wal import WAL_MUTANTS
from lychgate_conformance.lab._plan import Setting
from lychgate_conformance.lab._shrink import shrink
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import parse_workload

MUTANTS: tuple[Mutant, ...] = (
    *LOCK_MUTANTS,
    *MARK_MUTANTS,
    *DEAD_MUTANTS,
    *WAL_MUTANTS,
    *QUEUE_MUTANTS,
)
"""Every mutant of the engine."""

ENGINE = Target.name

_SHRINK_S = 6.0


@dataclass(frozen=True, slots=True)
class Kill:
    """What became of one mutant."""

    mutant: Mutant
    finding: Finding | None
    """None for a survivor."""
    part: str
    """The part of the campaign that showed it, or the last one that was tried."""
    led: bool
    images: int
    runs: int
    seconds: float

    @property
    def tool(self) -> str:
        """Which check of the lab noticed it."""
        return "" if self.finding is None else tool_of(self.finding)


def tool_of(finding: Finding) -> str:
    """Which check of the lab a finding comes from."""
    last = finding.plan.phases[-1]
    if finding.kind in ("not-idempotent", "recovery-failed-twice"):
        what = "recovery twice"
    elif finding.kind == "parts-depend":
        what = "recovery as a whole"
    elif last.image is not None:
        what = "host crash" if len(finding.plan.phases) == 1 else "second host crash"
    elif last.how == "kill":
        what = "restart"
    else:
        what = "answers and locks"
    return f"{what}, call failed" if finding.plan.fault is not None else what


def find_mutant(name: str) -> Mutant:
    """The mutant of this name; ValueError when there is none."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise ValueError(f"unknown mutant {name!r}; known: {', '.join(m.name for m in MUTANTS)}")


def target_named(name: str, setting: Setting) -> Target:
    """The engine or a mutant, with the limits of a setting; ValueError when there is neither."""
    if name == ENGINE:
        return Target(setting.attempts, setting.rotate)
    return MutantTarget(find_mutant(name), setting.attempts, setting.rotate)


def target_of(mutant: Mutant, part: Part) -> MutantTarget:
    """A mutant with the limits of a part."""
    return MutantTarget(mutant, part.lock_attempts, part.rotate_bytes)


def led(mutant: Mutant, seconds: float = 60.0) -> Kill:
    """The run that is known to show a mutant."""
    part = find_part(mutant.part)
    began = time.monotonic()
    explorer = _explored(target_of(mutant, part), part, mutant, seconds)
    totals = explorer.totals
    finding = totals.findings[0] if totals.findings else None
    spent = time.monotonic() - began
    return Kill(mutant, finding, part.name, True, totals.images, totals.runs, spent)


def control(mutant: Mutant, seconds: float = 60.0) -> list[Finding]:
    """What the engine without the fault shows in the same run: nothing, if all is well."""
    part = find_part(mutant.part)
    target = Target(part.lock_attempts, part.rotate_bytes)
    return _explored(target, part, mutant, seconds).totals.findings


def _explored(target: Target, part: Part, mutant: Mutant, seconds: float) -> Explorer:
    workload, focus = parse_workload(mutant.workload), frozenset(mutant.focus)
    bounds = replace(part.bounds, seconds=seconds, stop_at=ANY, focus=focus)
    explorer = Explorer(target, find_model(PORTABLE.name + part.knob), bounds)
    faults: list[Fault | None] = [None]
    if part.faults != ():
        faults += faults_of(target, workload, part.faults, focus)
    explorer.explore(workload, faults)
    return explorer


def free(mutant: Mutant, seconds: float, seed: int = 1) -> Kill:
    """All parts in order, each with its share of the seconds, until one shows the mutant.

    Raises KeyboardInterrupt when it was interrupted.
    """
    began = time.monotonic()
    images = runs = 0
    search = Search(seed=seed, make_target=partial(MutantTarget, mutant))
    parts = [replace(part, bounds=replace(part.bounds, stop_at=ANY)) for part in PARTS]
    finding, last = None, parts[0]
    for result in run_parts(parts, search, seconds):
        if result.interrupted:
            raise KeyboardInterrupt
        last, totals = result.part, result.totals
        images, runs = images + totals.images, runs + totals.runs
        if totals.findings:
            finding = totals.findings[0]
            break
    return Kill(mutant, finding, last.name, False, images, runs, time.monotonic() - began)


def shrunk(kill: Kill, seconds: float = _SHRINK_S) -> Kill:
    """The kill with the smallest finding of its kind that these seconds give."""
    if kill.finding is None:
        return kill
    part = find_part(kill.part)
    focus = frozenset(kill.mutant.focus if kill.led else ())
    bounds = replace(part.bounds, seconds=seconds, focus=focus)
    return replace(kill, finding=shrink(kill.finding, target_of(kill.mutant, part), bounds))
