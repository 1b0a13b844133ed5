"""Every lesson: made now, shows what it is about, judged as it says, done on real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pages.lesson_traces import NAMES, made

from lychgate_conformance._case import all_cases
from lychgate_conformance.lab._hunt import MUTANTS
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_tools import manifest as manifests
from lychgate_tools.page.document import BROKEN, checked, first_broken
from lychgate_tools.page.lessons import LESSONS
from lychgate_tools.page.text import lines, plain
from lychgate_tools.spec_dir import locate

ROOT = Path(__file__).parents[2]
HOLDS = [it.name for it in LESSONS if it.holds]
"""Lessons about what goes well."""


def said(name: str) -> str:
    return "\n".join(lines(made(name).document, 100))


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_and_its_run_on_real_files(name: str, tmp_path: Path) -> None:
    """D20, D21, U3, F1: a broken design is seen to break, every verdict follows from what stands
    beside it, and real calls end in the files that were foretold. One test for each lesson, since
    making one is what takes the time."""
    shows_what_it_is_about(name)
    links_lead_to_what_they_name(name)
    verdicts_follow_from_outcomes(name)
    runs_on_real_files(name, tmp_path)


def shows_what_it_is_about(name: str) -> None:
    """Question, then trace, then rule, then guards; it breaks at its end and not before."""
    document = made(name).document
    assert checked(json.loads(json.dumps(document)), name) == document
    text = said(name)
    places = [text.index(it) for it in ("Question: ", "  0 Begin", "Rule: ", "Guards:")]
    assert places == sorted(places)
    assert document["meta"]["holds"] is (name in HOLDS)
    broken = first_broken(document)
    assert (broken is None) is (name in HOLDS)
    assert broken is None or broken >= len(document["steps"]) - 3


def links_lead_to_what_they_name(name: str) -> None:
    """A step of the spec is linked to a definition, a step of the engine to a line of its code."""
    document = made(name).document
    sources = {it["id"]: it for it in document["sources"]}
    linked = 0
    for step in document["steps"]:
        for kind, place in step.get("links", {}).items():
            found = sources[place]
            line = found["text"].splitlines()[found["line"] - found["first"]]
            assert found["kind"] == kind and (ROOT / found["path"]).is_file()
            if kind == "spec":
                names = (step["action"], step.get("variant", ""), f"Fs{step['action']}")
                stem = line.partition("(")[0].partition(" ")[0]
                assert stem in names or stem.lower().startswith("fs"), (stem, names)
            linked += 1
    assert linked >= len(document["steps"]) // 2


def verdicts_follow_from_outcomes(name: str) -> None:
    """Where a crash point is judged, the strip says "broken" exactly if an outcome is; the one that
    was taken is among them, and the numbers of images add up."""
    document = made(name).document
    names = [it["name"] for it in document["invariants"]]
    both = {"AcknowledgedSurvives", "AbsentStaysAbsent"} <= set(names)
    judged = next((n for n, it in enumerate(names) if it in ("host crash", "promise")), None)
    for step in document["steps"]:
        crash = step.get("crash")
        if crash is None:
            continue
        outcomes = crash["outcomes"]
        if both and BROKEN not in step["verdicts"]:  # TLC's word and ours, of the same states
            assert all(it["holds"] for it in outcomes)
        assert crash["happens"] == any(it["taken"] for it in outcomes)
        if not crash["partial"]:
            assert sum(it["images"] for it in outcomes) == crash["images"]
        if judged is not None and step["kind"] != "kill":
            fails = any(it["holds"] is False for it in outcomes)
            assert fails == (step["verdicts"][judged] == BROKEN)


def runs_on_real_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    steps: list[str] = []
    image = made(name).on_real_files(tmp_path, steps.append)
    assert steps
    kept = tmp_path / ("live" if image is None else "after-crash")
    files = {it.name: it.read_bytes() for it in kept.rglob("*") if it.is_file()}
    last = made(name).document["steps"][-1]
    if last.get("crash", {}).get("happens"):
        taken = next(it for it in last["crash"]["outcomes"] if it["taken"])
        assert {it["name"] for it in taken["files"] if it["pieces"] is not None} <= set(files)
    if name == "fibers-sharing-a-lock":
        assert [it for it in steps if it.startswith("LockTry")] == ["LockTry: flock: True"] * 2


def test_a_rename_without_fsync_can_leave_an_empty_file() -> None:
    """D12: the outcomes under `portable` are the old file, the new one, whole or in part."""
    last = made("rename-without-fsync").document["steps"][-1]
    contents = {
        tuple(it["text"] for file in one["files"] if file["name"] == "f" for it in file["pieces"])
        for one in last["crash"]["outcomes"]
    }
    assert {("10a",), ("100b",), ()} <= contents


def test_the_text_fits_a_narrow_terminal_and_an_old_one() -> None:
    """40 columns, and ASCII."""
    document = made("in-place-rewrite").document
    narrow = list(lines(document, 40))
    long = [it for it in narrow if len(it) > 40 and len(max(it.split(), key=len)) < 26]
    assert not long, long[:3]
    assert plain("\n".join(narrow)).isascii()
    wide = "".join("".join(lines(document, 200)).split())
    assert "".join("".join(narrow).split()) == wide, "the same content at every width"


def test_guards_exist() -> None:
    """Every model, case, mutant, litmus program, invariant and requirement that a lesson names."""
    spec = locate()
    defined = "\n".join(spec.modules().values())
    known: dict[str, Any] = {
        "model": {it.name for it in manifests.load(spec.manifest).models},
        "mutant": {it.name for it in MUTANTS},
        "case": {it.id for it in all_cases()},
        "litmus": {it.name for it in LITMUS},
    }
    requirements = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    for lesson in LESSONS:
        kinds = {kind for kind, _ in lesson.guards}
        assert "requirement" in kinds and kinds & {"invariant", "litmus"}, lesson.name
        for kind, name in lesson.guards:
            if kind == "requirement":
                assert f"| {name} |" in requirements, name
            elif kind == "invariant":
                assert f"\n{name} ==" in defined, name
            else:
                assert name in known[kind], name


def test_there_are_lessons_enough() -> None:
    assert len({it.name for it in LESSONS}) == len(LESSONS) >= 14
    assert HOLDS == ["handoff-crash", "journal-with-recovery"]
