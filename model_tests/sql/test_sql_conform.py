"""The conformance suite on each engine: the cases that found faults here, and one of each kind."""

from __future__ import annotations

import json

import pytest

from lychgate_tools.cli import main
from lychgate_tools.sql_server import SERVERS, SqlServer

STATEMENTS = (
    "L0-ADD-005", "L0-DEAD-022", "L0-SEQ-003", "L0-TEXT-004", "L1-RACE-003", "L1-RACE-009",
    "L1-THR-005",
)  # fmt: skip
"""What engines may differ in."""
CASES = {
    "sqlite": (*STATEMENTS, "L0-PEND-003", "L1-THR-004", "L1-FORK-001", "L1-KILL-009"),
    "postgres": (*STATEMENTS, "L1-THR-004", "L1-FORK-001", "L1-KILL-011", "L1-OPEN-008"),
    "mariadb": STATEMENTS,
}


@pytest.mark.parametrize("backend", CASES)
def test_cases(
    backend: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D2, D13, D17, D26, D31, Q1: what is acknowledged is there, whoever is killed."""
    if backend in SERVERS:
        server: SqlServer = request.getfixturevalue(backend)
        monkeypatch.setenv("LYCHGATE_SQL_URL", server.plain_url)
    listed = json.loads(_said(capsys, "conform", "--list", "--json"))
    known = {case["id"] for case in listed["cases"]}
    assert known.issuperset(CASES[backend]), "cases keep their ids"
    wanted = [word for case in CASES[backend] for word in ("--case", case)]
    code = main(["conform", backend, *wanted])
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("engine", SERVERS)
def test_what_a_server_promises_and_nobody_can_try(
    engine: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Q1: its files are out of reach, so levels 2 and 3 are NOT MEASURED, which is never a pass."""
    server: SqlServer = request.getfixturevalue(engine)
    monkeypatch.setenv("LYCHGATE_SQL_URL", server.plain_url)
    assert main(["conform", engine, "--case", "L2-CUT-001", "--case", "L3-DLQ-001", "--json"]) == 2
    verdicts = [case["verdict"] for case in json.loads(capsys.readouterr().out)["results"]]
    assert verdicts == ["NOT MEASURED"] * 2


def _said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out
