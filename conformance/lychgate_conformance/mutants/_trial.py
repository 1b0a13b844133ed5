"""Trying mutants: each must fail the cases that it names, and a control none.

A race is lost by chance, so a case that a mutant passes is run again with other seeds. What does
not end, and an error of the suite, kills nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance._case import all_cases
from lychgate_conformance._runner import Options, run
from lychgate_conformance._target import Target, load_command, load_target
from lychgate_conformance._verdict import Verdict
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.mutants import CONTROLS
from lychgate_conformance.mutants._base import Mutant, all_mutants
from lychgate_conformance.mutants.foreign import (
    FOREIGN,
    LANGUAGES,
    ForeignMutant,
    build,
    installed,
    patched,
)

AnyMutant = Mutant | ForeignMutant

SEEDS = range(5)
"""A mutant counts as killed by a case when one of these runs kills it."""

STAYS: Mapping[str, str] = {}
"""Case id: why it stays though no mutant fails it."""

_TRACED = "2345"
"""Levels that need strace."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one mutant, or of one control."""

    name: str
    killed: Mapping[str, int]
    """Case: the seed with which it failed."""
    survived: tuple[str, ...]
    """Cases that passed with every seed."""
    odd: tuple[str, ...]
    """Cases without a verdict on the backend, and why."""
    untried: str
    """Why none of it could be tried here; empty when it was."""
    seconds: float

    @property
    def dead(self) -> bool:
        """Every case that it names has failed on it."""
        return not (self.survived or self.odd or self.untried)


def every_mutant() -> tuple[AnyMutant, ...]:
    """The mutants in Python and those in other languages, by name."""
    return tuple(sorted((*all_mutants(), *FOREIGN), key=lambda it: it.name))


def levels_of(mutant: AnyMutant) -> frozenset[int]:
    """The levels of the cases that it names."""
    return frozenset(int(case_id[1]) for case_id in mutant.kills)


def unmeasurable(mutant: AnyMutant) -> str:
    """What is missing to try it here; empty when nothing is."""
    if isinstance(mutant, ForeignMutant) and not installed(mutant.language):
        return f"needs {mutant.language}, which is not installed"
    if any(case_id[1] in _TRACED for case_id in mutant.kills) and strace_path() is None:
        return "needs strace: install the package of that name"
    return ""


def try_mutant(
    mutant: AnyMutant, case_ids: Iterable[str] | None = None, seeds: Iterable[int] = SEEDS
) -> Trial:
    """Run the cases that a mutant names, or some of them, until each has failed."""
    begun = time.monotonic()
    if (missing := unmeasurable(mutant)) != "":
        return Trial(mutant.name, {}, (), (), missing, 0.0)
    with tempfile.TemporaryDirectory(prefix="lychgate-mutant-") as place, _surroundings(mutant):
        left = mutant.kills if case_ids is None else tuple(case_ids)
        target = _target(mutant, Path(place))
        killed: dict[str, int] = {}
        odd: list[str] = []
        for seed in seeds:
            results = run(target, Options(case_ids=left, seed=seed)).results
            killed |= {it.case.id: seed for it in results if it.verdict is Verdict.FAIL}
            odd += [
                f"{it.case.id}: {it.verdict.value} {it.message}"
                for it in results
                if it.verdict not in (Verdict.FAIL, Verdict.PASS)
            ]
            left = tuple(it.case.id for it in results if it.verdict is Verdict.PASS)
            if not left:
                break
    return Trial(mutant.name, killed, left, tuple(odd), "", time.monotonic() - begun)


def _surroundings(mutant: AnyMutant) -> AbstractContextManager[object]:
    return nullcontext() if isinstance(mutant, ForeignMutant) else mutant.surroundings()


def _target(mutant: AnyMutant, place: Path) -> Target:
    if isinstance(mutant, ForeignMutant):
        return load_command(mutant.command(place))
    return load_target(mutant.spec, in_process=True)


def try_control(name: str, case_ids: tuple[str, ...]) -> Trial:
    """A backend in which nothing is planted: a case that fails on it is a false alarm.

    `name`: of a backend in Python, or of the language of an example adapter.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lychgate-control-") as place:
        if name in LANGUAGES:
            if not installed(name):
                return Trial(name, {}, (), (), f"needs {name}, which is not installed", 0.0)
            target = load_command(build(name, patched(name, ()), Path(place)))
        else:
            target = load_target(name, in_process=True)
        results = run(target, Options(case_ids=case_ids)).results
    quiet = (Verdict.PASS, Verdict.NOT_CLAIMED)
    return Trial(
        name,
        {it.case.id: 0 for it in results if it.verdict is Verdict.FAIL},
        tuple(it.case.id for it in results if it.verdict is Verdict.PASS),
        tuple(
            f"{it.case.id}: {it.verdict.value} {it.message}"
            for it in results
            if it.verdict not in (*quiet, Verdict.FAIL)
        ),
        "",
        time.monotonic() - begun,
    )


LINE_DISK = (
    *(f"L0-DMG-{n:03d}" for n in range(1, 27)),
    *("L1-LOCK-002", "L1-LOCK-003", "L1-KILL-005", "L1-KILL-010", "L1-RACE-002", "L1-RACE-008"),
)
"""The cases that the line disk is there for; its waiting tasks are the disk backend's own."""


def controls(levels: Collection[int]) -> dict[str, tuple[str, ...]]:
    """Backends in which nothing is planted, and the cases of these levels that they are held to.

    The engine is held to levels 0 and 1 here, and to all of them by `lychgate conform disk`.
    """
    every = tuple(it.id for it in all_cases() if it.level in levels)
    plain, lines = CONTROLS
    found = {
        "disk": tuple(it for it in every if it[1] in "01"),
        "nil": tuple(it for it in every if it[1] == "0"),
        plain: tuple(it for it in every if it[1] in "01"),
        lines: tuple(it for it in every if it in LINE_DISK),
        "lychgate_conformance.mutants._durable:Durable": tuple(it for it in every if it[1] in "23"),
    }
    for language in LANGUAGES:
        named = {it for mutant in FOREIGN if mutant.language == language for it in mutant.kills}
        found[language] = tuple(it for it in every if it in named)
    return {name: case_ids for name, case_ids in found.items() if case_ids}


def idle_cases(levels: Iterable[int]) -> dict[str, str]:
    """Cases of these levels that no mutant names, and why they stay; empty where no reason is."""
    named = {case_id for mutant in every_mutant() for case_id in mutant.kills}
    chosen = [it.id for it in all_cases() if it.level in levels and it.id not in named]
    return {case_id: STAYS.get(case_id, "") for case_id in chosen}
