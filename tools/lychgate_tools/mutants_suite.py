"""`lychgate mutants suite`: does the conformance suite see what it says it sees?

Every backend with a planted fault is run on the cases that it names, all of which must fail; then
the controls, on which none may. A case that no mutant fails stays only for a written reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from lychgate_conformance._case import LEVELS, all_cases
from lychgate_conformance.mutants._trial import (
    SEEDS,
    AnyMutant,
    Trial,
    controls,
    every_mutant,
    idle_cases,
    try_control,
    try_mutant,
)
from lychgate_tools.pool import each
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    UserError,
    colour,
    print_json,
    seconds,
    table,
    unknown,
)

SCHEMA = "lychgate-suite-mutants-1"
_QUICK_LEVELS = (0, 1)


@dataclass(slots=True)
class Score:
    """What is known so far."""

    levels: tuple[int, ...]
    wanted: Mapping[str, tuple[str, ...]]
    """Mutant: the cases that must fail on it."""
    idle: Mapping[str, str]
    trials: list[Trial] = field(default_factory=list)
    controls: list[Trial] = field(default_factory=list)
    controls_left: int = 0

    @property
    def left(self) -> int:
        return len(self.wanted) - len(self.trials) + self.controls_left

    @property
    def survivors(self) -> list[Trial]:
        return [it for it in self.trials if not it.dead and not it.untried]

    @property
    def false_alarms(self) -> list[str]:
        failed = [f"{it.name}: {case_id}" for it in self.controls for case_id in it.killed]
        return [*failed, *(f"{it.name}: {odd}" for it in self.controls for odd in it.odd)]

    @property
    def unreasoned(self) -> list[str]:
        return [case_id for case_id, why in self.idle.items() if not why]

    @property
    def exit_code(self) -> ExitCode:
        if self.survivors or self.false_alarms or self.unreasoned:
            return ExitCode.SHORT
        untried = any(it.untried for it in (*self.trials, *self.controls))
        return ExitCode.INCONCLUSIVE if untried or self.left else ExitCode.OK

    def rows(self) -> list[tuple[object, ...]]:
        """One for each level: cases and mutants, and how many of each do what they must."""
        found: list[tuple[object, ...]] = []
        for level in self.levels:
            mark = f"L{level}-"
            cases = sum(it.level == level for it in all_cases())
            mutants = [it for it in self.trials if _of(mark, self.wanted[it.name])]
            dead = [it for it in mutants if set(_of(mark, self.wanted[it.name])) <= set(it.killed)]
            killers = {it for trial in mutants for it in _of(mark, trial.killed)}
            score = f"{len(dead) / len(mutants):.0%}" if mutants else "-"
            name = f"{level} {LEVELS[level]}"
            found.append((name, cases, len(killers), len(mutants), len(dead), score))
        return found


HEADERS = ("level", "cases", "cases that kill", "mutants", "killed", "score")


def _of(mark: str, case_ids: Iterable[str]) -> list[str]:
    return [it for it in case_ids if it.startswith(mark)]


def plan(levels: Iterable[int], names: Iterable[str], quick: bool) -> Score:
    """What is to be tried."""
    chosen = tuple(levels) or tuple(LEVELS)
    wanted = {}
    for mutant in every_mutant():
        case_ids = tuple(it for it in mutant.kills if int(it[1]) in chosen)
        if case_ids:
            wanted[mutant.name] = case_ids[:1] if quick else case_ids
    picked = {name: wanted[name] for name in names if name in wanted} or wanted
    return Score(chosen, picked, {} if names else idle_cases(chosen))


def measure(score: Score, jobs: int, budget_s: float | None, quick: bool, alone: bool) -> None:
    """Fill in what happens. `alone`: no controls. What an interrupt leaves is what was done."""
    levels = [it for it in score.levels if not quick or it in _QUICK_LEVELS]
    held = {} if alone else controls(levels)
    score.controls_left = len(held)
    names = [*score.wanted, *(f"control {name}" for name in held)]
    work = partial(_one, wanted=score.wanted, held=held, quick=quick)
    with Progress("mutants", len(names)) as progress:
        for done, trial in enumerate(each(names, work, jobs, budget_s)):
            progress.update(done + 1, trial.name)
            if trial.name in score.wanted:
                score.trials.append(trial)
            else:
                score.controls.append(trial)
                score.controls_left -= 1
    score.trials.sort(key=lambda it: it.name)


def _one(
    name: str,
    wanted: Mapping[str, tuple[str, ...]],
    held: Mapping[str, tuple[str, ...]],
    quick: bool,
) -> Trial:
    control = name.removeprefix("control ")
    if control != name:
        return try_control(control, held[control])
    mutant = next(it for it in every_mutant() if it.name == name)
    return try_mutant(mutant, wanted[name], range(2) if quick else SEEDS)


def run(args: argparse.Namespace) -> int:
    known = [it.name for it in every_mutant()]
    for name in args.names:
        if name not in known:
            raise unknown("mutant", name, known)
    for level in args.level:
        if level not in LEVELS:
            raise UserError(f"no level {level}", ExitCode.USAGE)
    score = plan(sorted(set(args.level)), args.names, args.quick)
    interrupted = False
    try:
        measure(score, args.jobs, args.budget, args.quick, alone=bool(args.names))
    except KeyboardInterrupt:
        interrupted = True
    if args.json:
        print_json(as_json(score))
    else:
        _tell(score)
    return ExitCode.INTERRUPTED if interrupted else score.exit_code


def as_json(score: Score) -> dict[str, Any]:
    """Everything that was found, as plain values."""
    mutants = {it.name: it for it in every_mutant()}
    return {
        "schema": SCHEMA,
        "exit_code": int(score.exit_code),
        "levels": [dict(zip(HEADERS, row, strict=True)) for row in score.rows()],
        "mutants": [{**asdict(it), "fault": mutants[it.name].fault} for it in score.trials],
        "controls": [asdict(it) for it in score.controls],
        "cases_without_mutant": score.idle,
        "false_alarms": score.false_alarms,
        "survivors": [it.name for it in score.survivors],
        "not_tried": score.left,
    }


def _tell(score: Score) -> None:
    mutants = {it.name: it for it in every_mutant()}
    rows = [_row(it, mutants[it.name]) for it in score.trials]
    print(table(("mutant", "killed by", "fault"), rows))
    print()
    if score.controls:
        print(table(("control", "passed", "failed", "time"), control_rows(score)))
        print()
    for it in score.survivors:
        what = ", ".join(it.survived) or "; ".join(it.odd)
        print(colour(f"SURVIVES: {it.name}: {what}: {mutants[it.name].fault}", "bad"))
    for text in score.false_alarms:
        print(colour(f"FALSE ALARM: {text}", "bad"))
    for case_id, why in score.idle.items():
        print(colour(f"no mutant fails {case_id}: {why or 'and no reason is given'}", "note"))
    for it in (*score.trials, *score.controls):
        if it.untried:
            print(colour(f"NOT MEASURED: {it.name}: {it.untried}", "note"))
    print(table(HEADERS, score.rows()))
    dead = sum(it.dead for it in score.trials)
    print(f"{dead} of {len(score.trials)} mutants killed")
    if score.left:
        print(colour(f"{score.left} mutants and controls were not tried", "note"))


def _row(trial: Trial, mutant: AnyMutant) -> tuple[object, ...]:
    return (trial.name, " ".join(trial.killed) or "-", mutant.fault)


def control_rows(score: Score) -> list[tuple[object, ...]]:
    """The controls with the cases that passed and failed on them."""
    return [
        (it.name, len(it.survived), len(it.killed) + len(it.odd), seconds(it.seconds))
        for it in score.controls
    ]
