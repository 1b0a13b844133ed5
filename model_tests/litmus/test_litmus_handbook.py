"""The tables of the crash handbook are those that docs/litmus.md and the model give."""

from __future__ import annotations

from pathlib import Path

import pytest

from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_tools.cli import main
from lychgate_tools.litmus.handbook import BEGIN, END, GROUPS, portable, rewritten
from lychgate_tools.ui import ExitCode

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "litmus.md").read_text(encoding="utf-8")


def test_the_tables_are_up_to_date() -> None:
    """F1: the remedy is `lychgate litmus --handbook docs/crash-handbook.md`."""
    handbook = (DOCS / "crash-handbook.md").read_text(encoding="utf-8")
    assert rewritten(handbook, PAGE) == handbook


def test_every_state_that_is_expected_can_be() -> None:
    """F1: an expectation that no program can meet would call everything broken."""
    programs = {litmus.name: litmus for litmus in LITMUS}
    for _, expectations in GROUPS:
        for it in expectations:
            assert set(it.states) <= set(portable(programs[it.program])), it.program


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F3: it writes between the marks and nowhere else; a page without them is told."""
    (tmp_path / "litmus.md").write_text(PAGE, encoding="utf-8")
    handbook = tmp_path / "handbook.md"
    handbook.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n", encoding="utf-8")
    assert main(["litmus", "--handbook", str(handbook)]) == ExitCode.OK
    text = handbook.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nbehind\n")
    assert "old" not in text.splitlines() and "| kept |" in text
    handbook.write_text("nothing", encoding="utf-8")
    assert main(["litmus", "--handbook", str(handbook)]) == ExitCode.FAULT
    assert "no place for the tables" in capsys.readouterr().err
