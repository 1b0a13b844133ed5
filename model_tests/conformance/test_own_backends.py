"""The engine's own backends keep what they claim: every level on Disk, aio.Disk and Nil."""

from __future__ import annotations

import os

import pytest

from lychgate_conformance import Options, Report, Verdict, all_cases, load_target, run
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.cases import _crash, _fault

AREAS = sorted({case.id[:-4] for case in all_cases() if case.profile == "tasks"})
QUIET = (Verdict.PASS, Verdict.NOT_CLAIMED)
FEWER = Bounds(images_max=1000, again_max=150, family_max=300)
"""Of each recording; `lychgate conform disk` takes three times as many."""


def trouble(report: Report) -> list[str]:
    return [f"{it.case.id}: {it.message}" for it in report.results if it.verdict not in QUIET]


@pytest.mark.parametrize("area", AREAS)
def test_disk(area: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1 to D34, W1 to W14, F2, as far as the levels reach; every case is claimed but Nil's."""
    if area[1] in "234" and strace_path() is None:
        pytest.skip("needs strace: install the package of that name")
    ids = tuple(case.id for case in all_cases() if case.id[:-4] == area)
    if "LYCHGATE_EXAMPLES" not in os.environ:
        monkeypatch.setattr(_crash, "BOUNDS", FEWER)
        monkeypatch.setattr(_fault, "FAULTS_MAX", 4)
        ids = ids[:1] if area[1] == "4" else ids
    report = run(load_target("disk", in_process=area[1] in "01"), Options(case_ids=ids))
    assert trouble(report) == []
    left = [it.case.id for it in report.results if it.verdict is Verdict.NOT_CLAIMED]
    assert left == (list(ids) if area == "L0-NIL" else [])


def test_aio_disk() -> None:
    """D31: asyncio tasks in place of threads, and a fork."""
    ids = ("L1-THR-001", "L1-THR-004", "L1-THR-005", "L1-FORK-001", "L1-KILL-001", "L0-SEQ-002")
    report = run(load_target("lychgate.aio:Disk.open"), Options(case_ids=ids))
    assert [it.verdict for it in report.results] == [Verdict.PASS] * len(ids), trouble(report)


def test_nil() -> None:
    """D4."""
    report = run(load_target("nil"), Options())
    assert trouble(report) == []
    passed = [it.case.id for it in report.results if it.verdict is Verdict.PASS]
    assert passed == [it.id for it in all_cases() if "not stores" in it.needs]
