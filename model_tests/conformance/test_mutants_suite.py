"""`lychgate mutants suite`: scores, survivors, cases without a mutant, exit codes."""

from __future__ import annotations

import json

import pytest

from lychgate_conformance.mutants._trial import Trial, controls, every_mutant, idle_cases
from lychgate_conformance.mutants.foreign import FOREIGN, LANGUAGES, patched
from lychgate_tools.cli import main
from lychgate_tools.mutants_suite import Score, plan
from lychgate_tools.ui import ExitCode

DEAD = Trial("one", {"L0-ADD-001": 0}, (), (), "", 0.1)
ALIVE = Trial("two", {}, ("L0-ADD-002",), (), "", 0.1)
WANTED = {"one": ("L0-ADD-001",), "two": ("L0-ADD-002",)}


def test_there_are_enough_mutants_and_some_in_other_languages() -> None:
    names = [it.name for it in every_mutant()]
    assert len(set(names)) == len(names) >= 60
    assert len(FOREIGN) >= 6 and {it.language for it in FOREIGN} == set(LANGUAGES)
    assert all(it.source() != patched(it.language, ()) for it in FOREIGN)


def test_every_case_has_a_mutant_or_a_reason() -> None:
    assert [it for it, why in idle_cases(range(10)).items() if not why] == []


def test_a_survivor_a_false_alarm_and_an_idle_case_fall_short() -> None:
    assert Score((0,), {"one": WANTED["one"]}, {}, [DEAD]).exit_code == ExitCode.OK
    assert Score((0,), WANTED, {}, [DEAD]).exit_code == ExitCode.INCONCLUSIVE
    assert Score((0,), WANTED, {}, [DEAD, ALIVE]).exit_code == ExitCode.SHORT
    alarm = Trial("disk", {"L0-ADD-001": 0}, (), (), "", 0.1)
    one = {"one": WANTED["one"]}
    assert Score((0,), one, {}, [DEAD], [alarm]).exit_code == ExitCode.SHORT
    assert Score((0,), one, {"L0-ADD-002": ""}, [DEAD]).exit_code == ExitCode.SHORT
    assert Score((0,), one, {"L0-ADD-002": "why"}, [DEAD]).exit_code == ExitCode.OK
    missing = Trial("one", {}, (), (), "needs ruby", 0.0)
    assert Score((0,), one, {}, [missing]).exit_code == ExitCode.INCONCLUSIVE


def test_the_score_counts_mutants_and_cases_of_a_level() -> None:
    (row,) = Score((0,), WANTED, {}, [DEAD, ALIVE]).rows()
    assert row[0] == "0 contract" and row[2:] == (1, 2, 1, "50%")


def test_what_is_planned_is_of_the_level() -> None:
    quick, whole = plan((1,), (), quick=True), plan((1,), (), quick=False)
    assert quick.wanted.keys() == whole.wanted.keys()
    assert all(len(ids) == 1 and ids[0][1] == "1" for ids in quick.wanted.values())
    assert all(it[1] == "1" for ids in controls((1,)).values() for it in ids)


def test_the_command_kills_a_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "suite", "first-wins", "node-oldest-found", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["survivors"] == [] and told["not_tried"] == 0
    assert {it["name"] for it in told["mutants"]} == {"first-wins", "node-oldest-found"}
    assert main(["mutants", "suite", "no-such-mutant"]) == 4
    assert main(["mutants", "suite", "--level", "9"]) == 4
