"""Each mutant fails the cases that it names; the controls fail none.

A case that does not end, or an error of the suite, kills nothing.
"""

from __future__ import annotations

import pytest

from lychgate_conformance import Options, Verdict, load_target, run
from lychgate_conformance.mutants import CONTROLS
from lychgate_conformance.mutants._trial import LINE_DISK, AnyMutant, every_mutant, try_mutant

@pytest.mark.parametrize("mutant", every_mutant(), ids=lambda it: it.name)
def test_mutant_is_killed(mutant: AnyMutant) -> None:
    """Each promise that a mutant breaks is noticed; `lychgate mutants suite` shows the matrix."""
    trial = try_mutant(mutant)
    if trial.untried:
        pytest.skip(trial.untried)
    assert list(trial.odd) == []
    assert trial.dead, f"{mutant.name} survives {', '.join(trial.survived)}: {mutant.fault}"


@pytest.mark.parametrize("level", [0, 1])
def test_control_is_not_killed(level: int) -> None:
    """The suite asks for no more than the contract says."""
    report = run(load_target(CONTROLS[0], in_process=True), Options(levels=(level,)))
    trouble = [f"{it.case.id}: {it.message}" for it in report.results if it.verdict not in _QUIET]
    assert trouble == []
    assert sum(it.verdict is Verdict.PASS for it in report.results) >= 40


def test_line_disk_is_not_killed() -> None:
    report = run(load_target(CONTROLS[1], in_process=True), Options(case_ids=LINE_DISK))
    trouble = [
        f"{it.case.id}: {it.message}" for it in report.results if it.verdict is not Verdict.PASS
    ]
    assert trouble == []


_QUIET = (Verdict.PASS, Verdict.NOT_CLAIMED)
