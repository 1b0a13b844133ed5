"""Every line of the review checklist leads to a lesson, a case and a planted fault that exist."""

from __future__ import annotations

import re
from pathlib import Path

from lychgate_conformance._case import all_cases
from lychgate_conformance.lab._hunt import MUTANTS
from lychgate_conformance.mutants import all_mutants
from lychgate_tools.page.lessons import BY_NAME

PAGE = (Path(__file__).parents[2] / "docs" / "review.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    """Scenarios, cases and faults of each question."""
    found = re.findall(r"(?m)^\| [A-Z].*\? ?.*\|$", PAGE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found]


def test_cases_and_faults_exist() -> None:
    """D20: a question without a check is an opinion."""
    assert len(rows()) >= 24
    cases = {it.id for it in all_cases()}
    faults = {it.name for it in MUTANTS} | {it.name for it in all_mutants()}
    used = set()
    for question, scenarios, cited, planted in rows():
        lessons = set(re.findall(r"`([^`]+)`", scenarios))
        assert lessons and lessons <= set(BY_NAME), (question, lessons - set(BY_NAME))
        used |= lessons
        named = set(re.findall(r"`([^`]+)`", cited))
        assert named and named <= cases, (question, named - cases)
        names = set(re.findall(r"`([^`]+)`", planted))
        assert names and names <= faults, (question, names - faults)
    assert used == set(BY_NAME), "every lesson guards a question"
