"""Spec mutants: made from the source without breaking it, and a kill matrix that can be trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import tiny

from lychgate_tools import mutate
from lychgate_tools.cli import main
from lychgate_tools.mutate import Mutant, replaced
from lychgate_tools.tlc import sany, toolchain
from lychgate_tools.tlc.sany import Parsed, Place
from lychgate_tools.ui import ExitCode, UserError

MODULES = {"Tiny": tiny.MODULE}


@pytest.fixture(scope="module")
def parsed() -> Parsed:
    return sany.parse(toolchain.find(), MODULES, "Tiny")


def test_replacement_keeps_columns() -> None:
    """What follows keeps its column, so that bullet lists stay what they are."""
    source = "A == /\\ x = 1 /\\ y = 2\nB == /\\ f[x]\n        = 3\n     /\\ z"
    one = replaced(source, Place("M", 1, 9, 1, 13), "TRUE")
    assert one.splitlines()[0] == "A == /\\ TRUE  /\\ y = 2"
    two = replaced(source, Place("M", 2, 9, 3, 11), "TRUE")
    assert two.splitlines()[1:] == ["B == /\\ TRUE", "", "     /\\ z"]


def test_actions_are_found_by_the_rule_of_tlc(parsed: Parsed) -> None:
    """Through disjunction, bounded existence and operators, down to the innermost one."""
    assert [action.name for action in parsed.actions("Next")] == ["LockTry", "Unlock", "Done"]


def _mutants(parsed: Parsed) -> list[Mutant]:
    return mutate.mutants(parsed, MODULES, "Spec", ("TypeOK", "Mutex", "Counts", "Ends"))


def test_every_operator_finds_its_places(parsed: Parsed) -> None:
    found = {(mutant.operator, mutant.definition) for mutant in _mutants(parsed)}
    assert {
        ("guard", "LockTry"),
        ("frozen", "Unlock"),
        ("never", "Done"),
        ("bound", "LockTry"),
        ("kept", "Unlock"),
        ("garbage", "LockTry"),
        ("unfair", "Fairness"),
    } <= found
    assert "Barge" not in {definition for _, definition in found}, "not part of the behaviour"
    assert "Mutex" not in {definition for _, definition in found}, "the yardstick stays"


def test_every_mutant_differs_and_parses(parsed: Parsed) -> None:
    """All at once: each mutant becomes a module of its own under one root."""
    found = _mutants(parsed)
    modules = {}
    for number, mutant in enumerate(found):
        source = mutant.applied(MODULES)["Tiny"]
        assert source != tiny.MODULE
        modules[f"Tiny{number}"] = source.replace("MODULE Tiny", f"MODULE Tiny{number}")
    constants = f"CONSTANTS Workers, Max, {mutate.GARBAGE}\nVARIABLES pc, held, n\n"
    instances = "".join(f"I{n} == INSTANCE {name}\n" for n, name in enumerate(modules))
    root = f"---- MODULE Root ----\n{constants}{instances}====\n"
    sany.parse(toolchain.find(), {**modules, "Root": root}, "Root")
    assert len({mutant.name for mutant in found}) == len(found)


def test_a_spec_that_does_not_parse_is_one_line() -> None:
    with pytest.raises(UserError) as caught:
        sany.parse(toolchain.find(), {"Tiny": tiny.MODULE.replace("Done ==", "Done = =")}, "Tiny")
    assert "Tiny does not parse: Encountered" in caught.value.message
    assert caught.value.code == ExitCode.SHORT


def test_every_property_gets_a_killer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parsed: Parsed
) -> None:
    """Invariants, an action property and a temporal one; the control passes."""
    spec = tiny.write(tmp_path / "spec")
    words = ["check", "--spec", str(spec), "--mutants", "--reports", str(tmp_path / "reports")]
    assert main(words) == ExitCode.OK
    out = capsys.readouterr().out
    assert "4 of 4 properties are killed by a mutant" in out
    report = json.loads((tmp_path / "reports" / "spec-mutants.json").read_text())
    assert {one["name"] for one in report["properties"] if one["killer"]} == {
        "TypeOK",
        "Mutex",
        "Counts",
        "Ends",
    }
    assert len(report["trials"]) < len(_mutants(parsed)), "stops when each has a killer"


FLIP = r"""---- MODULE Flip ----
EXTENDS Naturals
VARIABLE x
Init == x = 0
Flip == x' = 1 - x
Other == x' = x
Next == Flip \/ Other
Vacuous == x = x
====
"""
FLIP_MODEL = """[[model]]
name = "Flip"
module = "Flip"
config = "Flip.cfg"
expect = "ok"
class = "quick"
"""


def test_a_vacuous_property_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No mutant of the behaviour can break what is always true; nor is a short budget an answer."""
    spec = tmp_path / "spec"
    spec.mkdir()
    (spec / "Flip.tla").write_text(FLIP)
    (spec / "Flip.cfg").write_text("INIT Init\nNEXT Next\nINVARIANT Vacuous\n")
    (spec / "manifest.toml").write_text(FLIP_MODEL)
    words = ["check", "--spec", str(spec), "--mutants", "--reports", str(tmp_path)]
    assert main([*words, "--budget", "0.01s"]) == ExitCode.INCONCLUSIVE
    assert "the budget ended first" in capsys.readouterr().out
    assert main(words) == ExitCode.SHORT
    out = capsys.readouterr().out
    assert "NO KILLER" in out
    assert "0 of 1 properties are killed by a mutant" in out


def test_properties_of_one_name_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill is shown under the module whose property died, not under one that has its name."""
    spec = tmp_path / "spec"
    spec.mkdir()
    kills = FLIP.replace("Flip ==", "Turn ==").replace("Flip \\/", "Turn \\/")
    kills = kills.replace("MODULE Flip", "MODULE Turn").replace("x = x", "x \\in {0, 1}")
    (spec / "Flip.tla").write_text(FLIP)
    (spec / "Turn.tla").write_text(kills)
    (spec / "Flip.cfg").write_text("INIT Init\nNEXT Next\nINVARIANT Vacuous\n")
    (spec / "manifest.toml").write_text(
        FLIP_MODEL + FLIP_MODEL.replace("Flip", "Turn").replace("Turn.cfg", "Flip.cfg")
    )
    words = ["check", "--spec", str(spec), "--mutants", "--reports", str(tmp_path)]
    assert main(words) == ExitCode.SHORT
    out = capsys.readouterr().out
    assert "1 of 2 properties are killed by a mutant" in out
    sections = {part.split(":")[0]: part for part in out.split("\n\n")}
    assert "none" in sections["Flip"] and "garbage Turn" not in sections["Flip"]
    assert "garbage Turn" in sections["Turn"]
    report = json.loads((tmp_path / "spec-mutants.json").read_text())
    killed = {name for one in report["trials"] for name in one["outcome"].items()}
    assert ("Turn.Vacuous", "killed") in killed and ("Flip.Vacuous", "killed") not in killed


def test_a_control_that_fails_ends_the_campaign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tiny.write(tmp_path / "spec", tiny.MODULE.replace("/\\ held = {}\n", "", 1))
    words = ["check", "--spec", str(spec), "--mutants", "--reports", str(tmp_path)]
    assert main(words) == ExitCode.SHORT
    assert "control run of Good: violates Mutex" in capsys.readouterr().err
