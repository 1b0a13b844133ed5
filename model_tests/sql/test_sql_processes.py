"""Several real processes, killed at every word and at random moments (Q6, Q10, U3, U7)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sql.database import ask

from lychgate import Sql
from lychgate_tools.cli import main
from lychgate_tools.soak import Fleet, Plan, outcome, soak

HERE = Path(__file__).parent


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of this directory, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_killed_at_every_statement(url: str) -> None:
    """Q6, Q7: after each word to the database: nothing lost, nothing twice."""
    process = start("kill_each_statement.py", url)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert int(output) >= 30, "kills"


def test_workers_replaced_under_load(url: str, tmp_path: Path) -> None:
    """Q10, U3, U9: killed at random moments and stopped gracefully, in turn: every task runs or is
    dead once, none is early, and what ran twice has its reason. `lychgate soak` does it at length.
    """
    plan = Plan(tasks=300, workers=3, replacements=5, seed=7)
    done = soak(url, plan, tmp_path / "runs", lambda turn, what: None)
    assert done.is_well, done
    assert (done.dead, done.kills, done.stops) == (plan.failing, 3, 5)
    assert ask(url, "SELECT count(*) FROM lychgate_tasks WHERE owner_id IS NOT NULL") == [(0,)]


def test_what_a_soak_finds(sqlite_url: str, tmp_path: Path) -> None:
    """Q10: lost, early, dead twice, and run twice without a reason, are told apart."""
    fleet = Fleet(sqlite_url, tmp_path / "runs", 0)
    fleet.killed, fleet.claims_lost = {1}, 1
    with Sql(sqlite_url) as worker:
        for _ in range(2):
            worker.add_dead_task("d", 1, None, "c", 1)
    log = "1 1 ok\n1 2 ok\n2 2 early\n3 2 ok\n3 3 ok\n3 3 ok\n"
    found = outcome(sqlite_url, Plan(tasks=6), fleet, log, 1.0)
    assert (found.lost, found.early, found.dead, found.dead_twice) == (2, 1, 1, 1)
    assert (found.twice_by_kill, found.twice_by_lost_claim, found.twice_unexplained) == (1, 1, 1)
    assert not found.is_well


def test_the_command(capsys: pytest.CaptureFixture[str], sqlite_url: str) -> None:
    """Q10: a summary or JSON; a database in use, or none, is told from a promise that is broken."""
    words = ["soak", "--tasks", "100", "--workers", "1", "--replacements", "0"]
    assert main([*words, sqlite_url, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["well"] and said["outcome"]["tasks"] == 100 and said["outcome"]["dead"] == 1
    assert main(["soak", "--tasks", "1"]) == 4 and main(["soak", "nonsense"]) == 4
    assert main([*words, "mariadb://localhost/x?unix_socket=/nowhere"]) == 3
    with Sql(sqlite_url) as worker:
        worker.add_task("in use", 3e9)
    assert main([*words, sqlite_url]) == 3
