"""Traceability: no requirement lacks spec, engine, test, case or mutant without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from lychgate_tools.cli import main
from lychgate_tools.requirements import PAGE, page, untrue
from lychgate_tools.traceability import (
    COLUMNS,
    Cited,
    Requirements,
    gaps,
    gather,
    ids_in,
    read_requirements,
    stale,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def known() -> Requirements:
    return read_requirements(ROOT / "docs" / "requirements.md")


@pytest.fixture(scope="module")
def cited() -> dict[str, Cited]:
    return gather(ROOT)


def test_no_gap(known: Requirements, cited: dict[str, Cited]) -> None:
    """The remedy is a citation where the requirement is kept, or a reason in the second table."""
    assert len(known.text) >= 87
    found = [*gaps(known, cited), *stale(known, cited)]
    assert not found, "\n" + "\n".join(found)


def test_the_page_is_true(known: Requirements, cited: dict[str, Cited]) -> None:
    """The remedy is `lychgate requirements --write`."""
    found = untrue((ROOT / PAGE).read_text(encoding="utf-8"), known, cited)
    assert not found, "\n" + "\n".join(found)


KNOWN = Requirements({"D1": "one", "D2": "two"}, {("D2", "mutant"): "why"})
CITED: dict[str, Cited] = {
    column: {"D1": ["a", "b"], "D2": [] if column == "mutant" else ["c"]} for column in COLUMNS
}


def test_gaps_are_found() -> None:
    """A column without a name needs a reason; a reason needs a column without a name."""
    assert gaps(KNOWN, CITED) == [] == stale(KNOWN, CITED)
    without = Requirements(KNOWN.text, {})
    assert [problem[:15] for problem in gaps(without, CITED)] == ["D2: no mutant c"]
    more = Requirements(KNOWN.text, {**KNOWN.lacks, ("D1", "spec"): "", ("D3", "spec"): ""})
    assert len(stale(more, CITED)) == 2


def test_what_the_page_says_is_compared() -> None:
    """A name too many, a requirement too few, an empty cell that has a name by now."""
    text = page(KNOWN, CITED)
    assert untrue(text, KNOWN, CITED) == []
    assert len(untrue(text.replace("`a`", "`z`"), KNOWN, CITED)) == len(COLUMNS)
    assert len(untrue(text.replace("| D2 |", "| D9 |"), KNOWN, CITED)) >= 1
    by_now = {**CITED, "mutant": {"D1": ["a", "b"], "D2": ["d"]}}
    assert untrue(text, KNOWN, by_now) == [f"{PAGE}: D2 has a mutant by now: --write"]


def test_what_cites() -> None:
    """Ids by themselves and in ranges; levels of the suite and case ids are none."""
    found = set(ids_in("add (D10, D17), W1–W3; L3-DLQ-001, L3", False))
    assert found == {"D10", "D17", "W1", "W2", "W3"}
    assert ids_in("claims (L3)", True) == ["L3"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """An id shows everything about it; one that does not exist is told."""
    assert main(["requirements", "D17"]) == 0
    out = capsys.readouterr().out
    assert "_dead.DeadStore.add" in out and "L1-KILL-002" in out
    assert main(["requirements", "Z1"]) == 4
    assert "no requirement named 'Z1'" in capsys.readouterr().err
