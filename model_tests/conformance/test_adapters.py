"""The example adapters keep what they claim, over stdio, under the ids that every target has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conformance.languages import LANGUAGES, adapter, python_adapter
from lychgate_conformance import Options, Report, Verdict, all_cases, run
from lychgate_conformance._session import Command
from lychgate_conformance._target import load_command
from lychgate_conformance.adapters import HOME
from lychgate_conformance.cases import _fault

QUIET = (Verdict.PASS, Verdict.NOT_CLAIMED)
SLOW = (
    *("L0-ROT", "L0-TEXT-008", "L0-TEXT-009", "L0-DEAD-018", "L0-ADD-003", "L0-DEAD-025"),
    *("L0-REM-006", "L0-FILE-005", "L0-FILE-006", "L0-TEXT-010", "L1-KILL-004", "L1-KILL-006"),
    *("L1-KILL-009", "L1-KILL-010", "L1-KILL-011", "L1-OPEN-008", "L1-RACE-002", "L1-RACE-003"),
    *("L1-RACE-004", "L1-RACE-009", "L1-THR"),
)
"""Large or long cases: one language is enough."""


def trouble(report: Report) -> list[str]:
    return [f"{it.case.id}: {it.message}" for it in report.results if it.verdict not in QUIET]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("level", [0, 1])
def test_example_keeps_its_claims(language: str, level: int, tmp_path: Path) -> None:
    """D2, D12, D16, D17, D25, D26, W3, W4, W8: levels 0 and 1, in every language."""
    slow = () if language == "c" else SLOW
    cases = (it for it in all_cases() if it.profile == "tasks" and it.level == level)
    ids = tuple(it.id for it in cases if not it.id.startswith(slow))
    report = run(load_command(adapter(language, tmp_path)), Options(case_ids=ids))
    assert trouble(report) == []
    passed = sum(it.verdict is Verdict.PASS for it in report.results)
    assert passed >= (50 if level == 0 else 12)


CRASHES = ("L2-CUT-001", "L2-CUT-006", "L3-DLQ-001", "L3-INIT-001", "L3-TWO-001", "L3-WAL-001")


def test_example_survives_kills_and_host_crashes(tmp_path: Path) -> None:
    """D9, D11, D17, D22, D28, D31, D32: levels 2 and 3, in C; the others write the same lines."""
    report = run(load_command(adapter("c", tmp_path)), Options(case_ids=CRASHES))
    assert trouble(report) == []
    assert all(it.verdict is Verdict.PASS for it in report.results)


FAULTS = ("L4-DEAD-001", "L4-LOCK-001", "L4-SHORT-003", "L4-STAY-002")


def test_example_bears_failing_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: level 4, in C, which nothing of Python's helps; but for the syncs (decision 27)."""
    monkeypatch.setattr(_fault, "FAULTS_MAX", 6)
    report = run(load_command(adapter("c", tmp_path)), Options(case_ids=FAULTS))
    assert trouble(report) == []
    assert all(it.verdict is Verdict.PASS for it in report.results)


def test_an_adapter_that_believes_its_files_fails(tmp_path: Path) -> None:
    """D28, F3: what a crash has made of a line reaches standard output; the backend is to blame."""
    words = adapter("c", tmp_path).words  # skipped where there is no compiler
    source = (HOME / "c_adapter.c").read_text(encoding="utf-8")
    trusting = source.replace("if (size < SUM) return 0;", "return size >= SUM;")
    assert trusting != source
    (tmp_path / "trusting.c").write_text(trusting, encoding="utf-8")
    program = f"{words[0]}-trusting"
    subprocess.run(["cc", "-O1", "-o", program, str(tmp_path / "trusting.c")], check=True)
    report = run(load_command(Command((program,))), Options(case_ids=("L3-DLQ-003",)))
    assert report.results[0].verdict is Verdict.FAIL
    assert "[noise-on-stdout]" in report.results[0].message


DISK = (
    *("survives_host_crash=yes", "uses_path=yes", "disk_layout=yes", "multi_thread=yes"),
    "fork_safe=yes",
)


def test_the_engine_over_stdio() -> None:
    """W2, W14, D15, D23, D27: owners, working directories, umasks, threads, forks in an adapter."""
    ids = (
        *("L0-FILE-001", "L0-FILE-003", "L0-FILE-008", "L0-FILE-011", "L0-SEQ-003", "L0-OPT-001"),
        *("L1-OWN-002", "L1-OWN-007", "L1-THR-001", "L1-THR-004", "L1-MEM-001", "L1-RACE-009"),
        *("L1-FORK-002", "L1-FORK-004", "L1-FORK-005", "L1-FORK-006", "L1-FORK-007"),
    )
    report = run(load_command(python_adapter("lychgate:Disk", *DISK)), Options(case_ids=ids))
    assert trouble(report) == []
    assert all(it.verdict is Verdict.PASS for it in report.results)


def test_what_an_adapter_cannot_do_is_not_measured(tmp_path: Path) -> None:
    """D23: this one cannot be told to fork; claimed and not tried is never a pass."""
    target = load_command(adapter("c", tmp_path), {"fork_safe": True})
    ids = ("L1-FORK-001", "L1-FORK-006")
    report = run(target, Options(case_ids=ids))
    assert [it.verdict for it in report.results] == [Verdict.NOT_MEASURED] * 2
    assert report.exit_code == 2


MUTANTS = {
    "lychgate_conformance.mutants.tasks:FirstWins": "L0-ADD-005",
    "lychgate_conformance.mutants.dead:NewestFirst": "L0-DEAD-005",
}


@pytest.mark.parametrize("spec", MUTANTS)
def test_a_fault_of_a_backend_shows_over_stdio_as_well(spec: str) -> None:
    """U2, D16: the same id fails, and its replay names the adapter's command."""
    report = run(load_command(python_adapter(spec)), Options(case_ids=(MUTANTS[spec],)))
    (result,) = report.results
    assert result.verdict is Verdict.FAIL
    assert result.replay[:4] == ("lychgate", "conform", "--case", MUTANTS[spec])
    assert result.replay[result.replay.index("--") + 1 :][-1] == spec
