"""docs/results.md is in the form that its command writes; nothing is measured here."""

from __future__ import annotations

from pathlib import Path

import pytest

from lychgate_conformance._case import LEVELS
from lychgate_tools import results_page
from lychgate_tools.cli import main
from lychgate_tools.mutants_suite import Score
from lychgate_tools.results_run import Held, Observation

PAGE = Path(__file__).parents[2] / "docs" / "results.md"
NAME = "lychgate_conformance.adapters.third_party.litequeue_store:Full"


def held(version: str | None) -> Held:
    words = ("passed", "failed", "not claimed", "NOT MEASURED", "no verdict", "left out")
    counts = {level: dict.fromkeys(words, 1) for level in LEVELS if version}
    lost = Observation("L3-DLQ-001", "host crash", "fail", "dead 'a' lost", "open; dead:a", "", "x")
    beyond = (lost,) if version else ()
    return Held(NAME, version, "", counts, (), beyond, 3 if version else -1, 1.0)


def test_the_page_lists_every_store_and_every_level() -> None:
    """D17, F1: `lychgate results --check` finds nothing missing."""
    assert results_page.problems(PAGE.read_text(encoding="utf-8")) == []
    assert main(["results", "--check", str(PAGE)]) == 0


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8").replace("### litequeue", "### litter")
    page = page.replace("\n| 3 host crash, every image |", "\n| 3 |")
    found = results_page.problems(page)
    assert any("no level 3" in it for it in found) and "mutants: no level 3" in found
    (tmp_path / "page.md").write_text("nothing")
    assert main(["results", "--check", str(tmp_path / "page.md")]) == 1
    assert "no part stores" in capsys.readouterr().out


def test_a_finding_is_worded_as_an_observation() -> None:
    """D17: version, what may be left after which calls, and the command that shows it again."""
    text = results_page.stores([held("0.9")])
    assert "With litequeue 0.9, a host crash after `open; dead:a` may leave: dead 'a' lost" in text
    assert "Again: `x`" in text and "(not promised)" in text


def test_a_store_that_is_not_installed_is_listed_as_such() -> None:
    text = results_page.stores([held(None)])
    assert "could not be installed here" in text and "not installed" in text


def test_one_part_can_be_replaced_alone() -> None:
    first = results_page.put("", {"stores": "old stores", "mutants": "old mutants"})
    page = results_page.put(first, {"mutants": results_page.mutants(Score((), {}, {}))})
    assert results_page.part_of(page, "stores") == "old stores"
    assert "old mutants" not in page and "0 of 0 mutants killed" in page
