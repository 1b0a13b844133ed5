"""The suite as a list: ids, citations, mutants."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lychgate_conformance import Claims, all_cases
from lychgate_conformance._claims import DISK, NIL, STORE, merge
from lychgate_conformance.adapters.delivery_queue import Engine
from lychgate_conformance.mutants import all_mutants

IDS = Path(__file__).with_name("case_ids.txt")
LAST = {"D": 34, "W": 14, "U": 9, "Q": 11, "L": 15, "F": 3}


def test_no_case_was_taken_out_or_renamed() -> None:
    """An id means the same for ever: `case_ids.txt` only grows."""
    listed = IDS.read_text().split()
    assert listed == sorted(listed)
    present = [case.id for case in all_cases()]
    assert [it for it in listed if it not in present] == []
    assert [it for it in present if it not in listed] == [], f"add the new ids to {IDS.name}"


def test_there_are_enough_cases_at_both_levels() -> None:
    counted = Counter(case.level for case in all_cases())
    assert counted[0] >= 60 and counted[1] >= 40


def test_every_case_cites_requirements_that_exist() -> None:
    for case in all_cases():
        assert case.requires and case.title and case.function.__doc__ is None
        for cited in case.requires:
            match = re.fullmatch(r"([DWUQLF])(\d+)", cited)
            assert match and 1 <= int(match[2]) <= LAST[match[1]], (case.id, cited)


def test_titles_differ() -> None:
    titles = Counter(case.title for case in all_cases())
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_case_has_a_mutant_that_it_kills() -> None:
    killed = {case_id for mutant in all_mutants() for case_id in mutant.kills}
    assert sorted({case.id for case in all_cases()} - killed) == []
    assert sorted(killed - {case.id for case in all_cases()}) == []


def test_every_mutant_says_what_is_wrong_with_it() -> None:
    faults = [mutant.fault for mutant in all_mutants()]
    assert len(set(faults)) == len(faults) >= 60
    assert all(
        fault.endswith(".") and mutant.kills
        for fault, mutant in zip(faults, all_mutants(), strict=True)
    )


def test_what_is_needed_can_be_claimed() -> None:
    """The engine's own backends reach every case between them."""
    queue = merge(STORE, Engine.claims)
    for case in all_cases():
        met = [claims for claims in (DISK, NIL, queue) if case.unmet(claims) is None]
        assert met, case.id
    assert [it.id for it in all_cases() if it.unmet(STORE) and "disk_layout" not in it.needs] != []


def test_a_backend_that_claims_nothing_is_asked_for_nothing_it_cannot_do() -> None:
    modest = Claims(survives_restart=False, survives_process_kill=False, multi_process=False)
    for case in all_cases():
        if case.unmet(modest) is None:
            assert case.level == 0 or "multi_thread" in case.needs, case.id
