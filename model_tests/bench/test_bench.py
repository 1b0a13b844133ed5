"""`lychgate bench`: its arithmetic, its output, nothing left behind. No time is asserted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lychgate_tools import bench_peers, bench_sql_peers
from lychgate_tools.bench import BENCHES
from lychgate_tools.bench_measure import compare, in_child
from lychgate_tools.bench_store import PREFIX, Plan, task_id, write_dead, write_wal
from lychgate_tools.cli import main
from lychgate_tools.sql_server import PostgresServer
from lychgate_tools.ui import UserError

from lychgate import Disk
from lychgate._names import wal_name

SMALL = ["--size", "100", "--count", "1"]


def _side(name: str, log: list[str], seconds: float) -> Callable[[], float]:
    def side() -> float:
        log.append(name)
        return seconds

    return side


def test_both_sides_take_turns() -> None:
    """D14: numbers are ratios of one run; every second round begins with the other side."""
    log: list[str] = []
    found = compare(_side("a", log, 3.0), _side("b", log, 2.0), rounds=3, each=2)
    assert "".join(log) == "aabb" + "bbaa" + "aabb"
    assert (found.first, found.second, found.ratio) == (3.0, 2.0, 1.5)


def test_ratio_is_the_median_of_the_rounds() -> None:
    """D14: a load that comes and goes hits both sides, and not the ratio."""
    loads = [1.0, 10.0, 1.0, 1.0, 7.0]
    first, second = iter([2 * load for load in loads]), iter(loads)
    assert compare(lambda: next(first), lambda: next(second), rounds=5).ratio == 2.0


@pytest.mark.parametrize("name", [name for name in BENCHES if "peers" not in name])
def test_every_bench_measures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D14, W9: each bench gives ratios with their surroundings, and leaves nothing behind."""
    assert main(["bench", name, "--path", str(tmp_path), "--json", *SMALL]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"machine", "kernel", "file system", "python", "command"} <= set(said["where"])
    assert said["results"] and all(
        result["bench"] == name and result["ratio"] > 0 for result in said["results"]
    )
    assert list(tmp_path.iterdir()) == []


def test_table_names_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D14: a goal is shown as met or missed, and the exit code does not depend on it."""
    assert main(["bench", "first-page", "--path", str(tmp_path), *SMALL]) == 0
    out = capsys.readouterr().out
    assert "command:" in out and "list_dead_tasks(limit=50)" in out
    assert "met" in out or "missed" in out


def test_a_missing_peer_is_not_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D14: without the peers the bench says how to install them, with the code of not measured."""

    def missing(path: Path) -> Callable[[], object]:
        raise bench_peers.PeerMissing("no module")

    monkeypatch.setattr(bench_peers, "PEERS", {"huey": ("enqueue", missing)})
    assert main(["bench", "peers", "--path", str(tmp_path), *SMALL]) == 2
    assert 'pip install "lychgate[bench]"' in capsys.readouterr().out


def test_missing_peers_of_the_sql_backend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q5: the same where there is no server, or a server and no peer."""

    def missing(module: str) -> None:
        raise ImportError(module)

    with monkeypatch.context() as patch:
        patch.setattr(bench_sql_peers, "_import", missing)
        assert main(["bench", "sql-peers", "--path", str(tmp_path), *SMALL]) == 2
    assert 'pip install "lychgate[bench]"' in capsys.readouterr().out
    monkeypatch.setattr(PostgresServer, "missing", lambda: "no server here")
    assert main(["bench", "sql-peers", "--path", str(tmp_path), *SMALL]) == 2
    assert "no server here" in capsys.readouterr().out


def test_peers_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D14: a peer is measured beside both durable calls of the engine."""
    monkeypatch.setattr(bench_peers, "PEERS", {"other": ("put", lambda path: path.exists)})
    plan = Plan(tmp_path, 100, 1, lambda text: None)
    found = bench_peers.peers(plan)
    assert [result.what for result in found] == ["add_dead_task", "add_task, fsync_frequency=0"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dead-ad"], "did you mean dead-add?"),
        (["--size", "3"], "whole number from 100 on"),
        (["--count", "x"], "whole number from 1 on"),
    ],
)
def test_bad_input(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """F3: one line on stderr and the code of a wrong command line."""
    assert main(["bench", *arguments]) == 4
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def test_a_place_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F3: one line that names the remedy."""
    assert main(["bench", "dead-add", "--path", str(tmp_path / "no"), *SMALL]) == 3
    assert "--path" in capsys.readouterr().err


def test_no_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: a disk that is too small is said before anything is written."""
    assert main(["bench", "compaction", "--path", str(tmp_path), "--size", str(10**15)]) == 2
    assert "smaller --size" in capsys.readouterr().err


def test_made_stores_are_stores(tmp_path: Path) -> None:
    """D8, W1: what the benches write without the engine is what the engine would have written."""
    write_dead(tmp_path / "dead", 120)
    with Disk(tmp_path / "dead") as disk:
        assert [dead.task_id for dead in disk.list_dead_tasks()] == [task_id(n) for n in range(120)]
        assert disk.stats().get("dead_lines_skipped", 0) == 0
    (tmp_path / "wal").mkdir()
    write_wal(tmp_path / "wal" / wal_name(PREFIX, "20260101", 1, bytes(8)), 120)
    with Disk(tmp_path / "wal") as disk:
        assert len(disk.pending_tasks()) == 120


def test_a_child_reports_its_own_peak(tmp_path: Path) -> None:
    """F3: peak memory is the child's, and a child that fails is a one-line error."""
    write_dead(tmp_path, 120)
    assert in_child("page", str(tmp_path)).peak_bytes > 1_000_000
    with pytest.raises(UserError, match="the measuring child"):
        in_child("remove", str(tmp_path), "no such id")
