"""Adapters that misbehave: each gets a finding by name, and leaves nothing behind.

Limits are long wherever an adapter is right, so that a busy machine changes nothing; where one
hangs for ever a short limit ends the wait.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from lychgate_conformance import Options, Verdict, _pipes, run
from lychgate_conformance._findings import FINDINGS, Finding
from lychgate_conformance._session import Command, Session
from lychgate_conformance._smoke import smoke
from lychgate_conformance._target import load_command
from lychgate_tools.cli import main

BAD = str(Path(__file__).parent / "bad_adapters" / "bad_adapter.py")
SHORT_S = "1.5"

FAULTS = {
    "no-start": "does-not-start",
    "banner": "noise-on-stdout",
    "version": "wrong-protocol",
    "claim": "not-by-schema",
    "noise": "noise-on-stdout",
    "number": "noise-on-stdout",
    "nan": "noise-on-stdout",
    "nested": "noise-on-stdout",
    "empty": "noise-on-stdout",
    "not-utf-8": "not-utf-8",
    "no-field": "not-by-schema",
    "kind": "not-by-schema",
    "tag": "not-by-schema",
    "other-id": "unrequested",
    "twice": "unrequested",
    "forks": "unrequested",
    "goes-on": "unrequested",
    "lies": "lies-about-error",
    "error-class": "error-class",
    "dies": "dies",
    "children": "leaves-children",
    "outside": "path-outside",
    "absolute": "path-outside",
    "link": "path-outside",
    "fills": "fills-disk",
}


def command(fault: str) -> list[str]:
    return [sys.executable, BAD, fault]


def of_this_suite() -> list[str]:
    """Processes of adapters that this process started and that still run."""
    word = f"LYCHGATE_ADAPTER={os.getpid()}-".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if word in environ.read_bytes():
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> object:
    yield
    assert of_this_suite() == []
    assert list(tmp_path.iterdir()) == []


def said_by_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The finding of `lychgate smoke`, which ends with 3; its message names it, too."""
    assert main(["smoke", "--json", "--path", str(tmp_path), *words]) == 3
    checks = json.loads(capsys.readouterr().out)["checks"]
    (bad,) = [it for it in checks if it["verdict"] == "adapter"]
    assert bad["message"].startswith(f"[{bad['finding']}] ")
    assert f"docs/protocol.md#{FINDINGS[bad['finding']][1]}" in bad["message"]
    return str(bad["finding"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_a_name(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F3: hostile adapters give a clear error."""
    limits = ["--disk-limit", "16"] if fault == "fills" else []
    assert said_by_smoke(tmp_path, capsys, *limits, "--", *command(fault)) == FAULTS[fault]


HANGS = {"hangs": "hangs", "silent": "no-greeting"}


@pytest.mark.parametrize("fault", HANGS)
def test_who_hangs_is_ended(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = "--start-limit" if fault == "silent" else "--call-limit"
    assert said_by_smoke(tmp_path, capsys, limit, SHORT_S, "--", *command(fault)) == HANGS[fault]


def test_who_goes_on_after_the_end_is_ended(tmp_path: Path) -> None:
    result = smoke(Command(tuple(command("stays")), end_limit_s=float(SHORT_S)), base=str(tmp_path))
    assert [it.finding for it in result.outcomes if it.finding] == ["does-not-end"]


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pipes, "LINE_BYTES_MAX", 1_000_000)
    result = smoke(Command(tuple(command("endless"))), base=str(tmp_path))
    assert "endless-line" in [it.finding for it in result.outcomes]


def test_every_finding_is_provoked() -> None:
    """A finding that no adapter of these tests shows is not known to work."""
    shown = {*FAULTS.values(), *HANGS.values(), "does-not-end", "endless-line"}
    assert set(FINDINGS) == shown | {"out-of-order"}


OUT_OF_ORDER = """
import json, sys
hello = json.loads(input())
claims = {"stores": True}
greeting = {"protocol": 1, "name": "b", "claims": claims, "capabilities": ["times"]}
print(json.dumps({"id": hello["id"], "ok": greeting}), flush=True)
first, second = json.loads(input()), json.loads(input())
print(json.dumps({"id": second["id"], "ok": None}), flush=True)
print(json.dumps({"id": first["id"], "ok": None}), flush=True)
"""


def test_replies_out_of_order(tmp_path: Path) -> None:
    session = Session(Command((sys.executable, "-c", OUT_OF_ORDER)))
    try:
        session.send("remove_task", store=1, task_id="a")
        session.send("remove_task", store=1, task_id="b")
        with pytest.raises(Finding, match="out-of-order"):
            session.take(60.0)
    finally:
        session.end()


def test_a_chatty_standard_error_is_kept_short(tmp_path: Path) -> None:
    """F3: memory stays bounded; what is shown is the end of it."""
    result = smoke(Command(tuple(command("stderr")), 1_000_000), base=str(tmp_path))
    assert all(len(it.stderr) < 10_000 for it in result.outcomes)


# --- the same adapters in a run of cases --------------------------------------------------------


def test_a_fault_ends_a_whole_run_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No backend is blamed for its adapter."""
    assert main(["conform", "--path", str(tmp_path), "--", *command("noise")]) == 3
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert "the adapter is at fault: [noise-on-stdout]" in captured.err


def cases(fault: str, tmp_path: Path, *ids: str, call_limit_s: float = 30.0) -> list[Verdict]:
    target = load_command(Command(tuple(command(fault))), base=str(tmp_path))
    options = Options(case_ids=ids, path=str(tmp_path), call_limit_s=call_limit_s)
    return [it.verdict for it in run(target, options).results]


def test_a_fault_within_a_case_is_a_harness_error(tmp_path: Path) -> None:
    assert cases("noise", tmp_path, "L0-ADD-001") == [Verdict.HARNESS_ERROR]


def test_an_adapter_that_dies_has_failed_the_case(tmp_path: Path) -> None:
    """A crash is never an expected refusal."""
    assert cases("dies", tmp_path, "L0-ADD-001", "L0-REM-002") == [Verdict.PASS, Verdict.FAIL]


def test_an_adapter_that_hangs_is_inconclusive(tmp_path: Path) -> None:
    found = cases("hangs", tmp_path, "L0-ADD-001", "L0-PEND-001", call_limit_s=8.0)
    assert found == [Verdict.INCONCLUSIVE, Verdict.PASS]


def test_a_refusal_that_took_effect_fails_the_case(tmp_path: Path) -> None:
    """D25: an error is held to what it says."""
    assert cases("lies", tmp_path, "L0-ADD-008") == [Verdict.FAIL]


def test_nothing_more_is_tried_when_nothing_comes_of_it(tmp_path: Path) -> None:
    """A run of an adapter that is always at fault ends soon."""
    target = load_command(Command(tuple(command("noise"))), base=str(tmp_path))
    ids = ("L0-ADD-001", "L0-ADD-002", "L0-ADD-005", "L0-ADD-006", "L0-ADD-007", "L0-PEND-001")
    report = run(target, Options(case_ids=ids, path=str(tmp_path)))
    assert [it.verdict for it in report.results[:4]] == [Verdict.HARNESS_ERROR] * 4
    assert [it.untried for it in report.results[4:]] == [True, True]
    assert report.exit_code == 3
