"""The adapters of other people's stores: what their pages say is there, and the mapping works."""

from __future__ import annotations

import pytest

from lychgate_conformance import Options, Verdict, all_cases, load_target, run
from lychgate_conformance.adapters.third_party import Shelved, all_stores, spec

SHORT = (
    *("L0-ADD-001", "L0-ADD-005", "L0-REM-001", "L0-DEAD-001", "L0-DEAD-008", "L0-DEAD-013"),
    *("L0-FILE-001", "L0-FILE-008", "L1-OPEN-003"),
)


@pytest.mark.parametrize("store", all_stores(), ids=spec)
def test_mapping_keeps_the_contract(store: type[Shelved]) -> None:
    """D2, D12, D16, D26, W2: a small part of levels 0 and 1, on every store and setting."""
    if store.peer.version is None:
        pytest.skip(f"{store.peer.distribution} is not installed: pip install lychgate[peers]")
    report = run(load_target(spec(store), in_process=True), Options(case_ids=SHORT))
    quiet = (Verdict.PASS, Verdict.NOT_CLAIMED)
    trouble = [f"{it.case.id}: {it.message}" for it in report.results if it.verdict not in quiet]
    assert trouble == []
    assert sum(it.verdict is Verdict.PASS for it in report.results) == len(SHORT)


def test_every_store_says_what_its_mapping_is() -> None:
    """The page needs words for each, and a reason for each case that is left out."""
    known = {case.id for case in all_cases()}
    assert len({(it.peer.name, it.peer.setting) for it in all_stores()}) == len(all_stores()) >= 12
    for store in all_stores():
        peer = store.peer
        assert all((peer.setting, peer.promises, peer.mapping, peer.limits)), peer.name
        assert set(peer.leaves_out) <= known and all(peer.leaves_out.values())
