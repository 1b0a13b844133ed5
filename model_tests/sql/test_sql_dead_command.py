"""`lychgate dead` on every engine; test_dead_command.py tries more of it, on SQLite (Q7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql.conftest import MakeSql
from tools.dead_stores import job

from lychgate import Undecodable
from lychgate_tools.cli import main


def test_every_action(
    make: MakeSql, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D30, U8: out and in again without loss, removed by row, brought back for any worker."""
    worker = make()
    for task_id in ("a", "é\n", "a"):
        worker.add_dead_task(task_id, job("shop.send", task_id), ValueError("é"), "shop.send", 3)
    worker.add_dead_task("raw", Undecodable("pickle", b"\0\xff"), "no", "T", 1)
    before = worker.list_dead_tasks()
    exported = str(tmp_path / "x.jsonl")
    assert main(["dead", "export", url, "--output", exported]) == 0
    assert main(["dead", "import", url, exported]) == 0
    assert worker.list_dead_tasks() == before
    assert main(["dead", "purge", url, "--all"]) == 0
    assert worker.list_dead_tasks() == []
    assert main(["dead", "import", url, exported]) == 0
    assert worker.list_dead_tasks() == before
    assert main(["dead", "verify", url]) == 0
    assert main(["dead", "list", url, "--class", "shop.*"]) == 0
    assert r"\n" in capsys.readouterr().out
    assert main(["dead", "retry", url, "--class", "shop.*"]) == 0
    assert [dead.task_id for dead in worker.list_dead_tasks()] == ["raw"]
    found = [task for _, task, _ in worker.pending_tasks()]
    assert sorted(task["retry_of"] for task in found if isinstance(task, dict)) == ["a", "é\n"]
