"""The delivery profile: the engine and the controls keep what they claim, at every level."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from conformance.languages import python_adapter
from lychgate_conformance import Options, Report, Verdict, all_cases, load_target, run
from lychgate_conformance._session import Command
from lychgate_conformance._smoke import smoke
from lychgate_conformance._target import load_command
from lychgate_conformance.adapters import HOME
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.mutants import QUEUES, find_mutant
from lychgate_tools.cli import main

ENGINE = "lychgate_conformance.adapters.delivery_queue:Engine"
QUIET = (Verdict.PASS, Verdict.NOT_CLAIMED)
FEW = (
    *("L0-QPUT-001", "L0-QCLAIM-003", "L0-QEND-005", "L0-QEND-007", "L0-QSEQ-002"),
    *("L1-QOPEN-001", "L1-QLOCK-001", "L1-QLOCK-002", "L1-QLOCK-003", "L1-QKILL-002"),
)
"""Cases of every kind, for adapters whose queue is tried in full elsewhere."""
ROOM = ("L0-QROOM-001", "L0-QROOM-002", "L0-QROOM-003", "L0-QROOM-006", "L0-QROOM-009")
MORE = int(os.environ.get("LYCHGATE_EXAMPLES", "100")) > 100
"""Every case of every queue; without it, of each queue those that another has not."""


def ids_of(*levels: int) -> tuple[str, ...]:
    return tuple(it.id for it in all_cases() if it.profile == "delivery" and it.level in levels)


def trouble(report: Report) -> list[str]:
    return [f"{it.case.id}: {it.message}" for it in report.results if it.verdict not in QUIET]


def need_strace() -> None:
    if strace_path() is None:
        pytest.skip("needs strace: install the package of that name")


@pytest.mark.parametrize("level", [0, 1])
def test_the_engine_keeps_every_claim(level: int) -> None:
    """L1 to L12, in process and over restarts, kills and locks; nothing is left untried."""
    report = run(load_target("delivery", in_process=True), Options(levels=(level,)))
    assert [it.case.id for it in report.results] == list(ids_of(level))
    assert {it.verdict for it in report.results} == {Verdict.PASS}, trouble(report)


@pytest.mark.parametrize("case_id", ids_of(2, 3, 4) if MORE else ("L2-QCUT-003", "L3-QCRASH-004"))
def test_the_engine_survives_kills_crashes_and_faults(case_id: str) -> None:
    """L2, L4, L5, L7, L10, L11, L12."""
    need_strace()
    report = run(load_target("delivery"), Options(case_ids=(case_id,)))
    assert [it.verdict for it in report.results] == [Verdict.PASS], trouble(report)


@pytest.mark.parametrize("spec", QUEUES)
def test_other_queues_keep_what_they_claim(spec: str) -> None:
    """The suite asks for no more than the contract says (L1, L3, L6, L7, L9)."""
    ids = ids_of(0, 1) if MORE else FEW + ROOM
    report = run(load_target(spec, in_process=True), Options(case_ids=ids))
    assert trouble(report) == []
    assert sum(it.verdict is Verdict.PASS for it in report.results) >= len(FEW)


@pytest.mark.parametrize("spec", QUEUES if MORE else QUEUES[1:])
def test_other_queues_survive_kills_crashes_and_faults(spec: str) -> None:
    """L2, L4, L11: no false alarm on a queue that is not the engine's."""
    need_strace()
    few = ("L3-QCRASH-002", "L4-QSHORT-001")
    report = run(load_target(spec), Options(case_ids=ids_of(2, 3, 4) if MORE else few))
    assert {it.verdict for it in report.results} == {Verdict.PASS}, trouble(report)


def node_queue() -> Command:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: no node on PATH")
    return Command((node, str(HOME / "node_queue.mjs")))


def test_a_queue_in_another_language() -> None:
    """L1, L3, L5, L8: a queue and its adapter in Node.js."""
    report = run(load_command(node_queue()), Options(case_ids=FEW))
    assert [it.verdict for it in report.results] == [Verdict.PASS] * len(FEW), trouble(report)


def test_the_engine_over_stdio() -> None:
    """L1, L3, L5, L8: the same ids, through the adapter in Python."""
    ids = ids_of(0, 1) if MORE else FEW[2:7]
    report = run(load_command(python_adapter(ENGINE)), Options(case_ids=ids))
    assert [it.verdict for it in report.results] == [Verdict.PASS] * len(ids), trouble(report)


def test_a_clock_that_cannot_be_set_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: a queue on the system's clock is tried all the same."""
    text = f"from {ENGINE.replace(':', ' import ')}\nclass Plain(Engine):\n    clock = None\n"
    (tmp_path / "plain_queue.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = run(load_command(python_adapter("plain_queue:Plain")), Options(case_ids=FEW[:2]))
    assert [it.verdict for it in report.results] == [Verdict.PASS] * 2, trouble(report)


def test_smoke_knows_queues() -> None:
    """A queue's adapter is smoked with the calls of a queue."""
    for command in (python_adapter(ENGINE), node_queue()):
        result = smoke(command)
        assert [it.message for it in result.outcomes if it.verdict not in ("ok", "left out")] == []
        assert sum(it.verdict == "ok" for it in result.outcomes) >= 7


def test_a_mutant_shows_over_stdio_as_well() -> None:
    """L8: the same id fails, and the message has both values."""
    mutant = find_mutant("queue-last-reason")
    assert mutant is not None
    report = run(load_command(python_adapter(mutant.spec)), Options(case_ids=("L0-QEND-005",)))
    (result,) = report.results
    assert result.verdict is Verdict.FAIL and "'second'" in result.message


def test_a_task_store_is_not_asked_for_a_queue() -> None:
    """Cases of the other profile are not part of a run, and not claimed when named."""
    report = run(load_target("nil"), Options(levels=(0,)))
    assert {it.case.profile for it in report.results} == {"tasks"}
    report = run(load_target("nil"), Options(case_ids=("L0-QPUT-001",)))
    assert [it.message for it in report.results] == ["not claimed: profile=delivery"]


def test_the_commands_take_a_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Conform, verify, replay, expect and list, as for a task store."""
    case, reports, known = "L0-QEND-005", tmp_path / "reports", str(tmp_path / "known.json")
    how = ("--case", case, "--report", str(reports))
    assert main(("conform", "delivery", *how)) == 0
    assert {it.suffix for it in reports.iterdir()} == {".json", ".txt", ".xml", ".html"}
    report = reports / "conform-delivery.json"
    claims = json.loads(report.read_text())["backend"]["claims"]
    assert claims["profile"] == "delivery" and "pending_scope" not in claims
    assert main(("verify", str(report))) == 0
    assert main(("replay", str(report), "--case", case)) == 0
    mutant = ("conform", "--mutant", "queue-last-reason", *how)
    assert main(mutant) == 1
    failed = next(reports.glob("*LastReason.json"))
    assert main(("expect", str(failed), "--write", known, "--reason", "a mutant")) == 0
    assert main((*mutant, "--expect", known)) == 0
    capsys.readouterr()
    assert main(("list", "--profile", "delivery", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {it["profile"] for it in listed["cases"]} == {"delivery"}
    assert list(listed["claims"])[0] == "profile" and len(listed["mutants"]) >= 55
