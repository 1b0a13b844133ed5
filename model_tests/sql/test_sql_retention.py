"""`dead_tasks_retention_period` in a database: by its own clock, in `tick` and in an add (D35)."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from sql.conftest import MakeSql
from sql.database import do

from lychgate import ConfigError, Sql, configure

PERIOD = 1000.0


def bury(worker: Sql, *task_ids: str) -> None:
    for task_id in task_ids:
        worker.add_dead_task(task_id, None, "no", "T", 1)


def ids(worker: Sql) -> list[str]:
    return [dead.task_id for dead in worker.list_dead_tasks()]


def age(url: str, task_id: str, seconds: float) -> None:
    """The dead task of this id died so long ago."""
    statement = "UPDATE lychgate_dead_tasks SET failed_at = {now} - :s WHERE task_id = :id"
    do(url, statement, s=seconds, id=task_id)


def test_what_is_over_goes_and_nothing_else(make: MakeSql, url: str) -> None:
    """D35: a second before the end it stays, at the end it goes and is counted."""
    keeper, sweeper = make(), make(dead_tasks_retention_period=PERIOD)
    bury(keeper, "old", "new", "older")
    age(url, "old", PERIOD)
    age(url, "older", PERIOD * 9)
    age(url, "new", PERIOD - 30)
    now = time.time()
    keeper.tick(now)
    assert ids(keeper) == ["old", "new", "older"] and "dead_tasks_expired" not in keeper.stats()
    due = sweeper.tick(now)
    assert ids(keeper) == ["new"] and sweeper.stats()["dead_tasks_expired"] == 2
    assert due is not None and due <= now + PERIOD / 20
    age(url, "new", PERIOD)
    sweeper.tick(now + 1)  # too early to look
    assert ids(keeper) == ["new"]
    sweeper.tick(now + PERIOD / 20)
    assert ids(keeper) == []


def test_the_clock_of_the_caller_decides_nothing(make: MakeSql) -> None:
    """D35: whatever it says, the database's does."""
    worker = make(dead_tasks_retention_period=PERIOD)
    bury(worker, "a")
    for wrong in (0.0, 1e12, -1e12):
        worker.tick(wrong)
    assert ids(worker) == ["a"]


def test_an_add_looks_where_nobody_ticks(make: MakeSql, url: str) -> None:
    """D1, D35: the first one does, then the next that is past due."""
    bury(make(), "a")
    age(url, "a", PERIOD)
    worker = make(dead_tasks_retention_period=PERIOD)
    bury(worker, "b")
    assert ids(worker) == ["b"] and worker.stats()["dead_tasks_expired"] == 1


@pytest.mark.parametrize("period", [0, -1, math.inf, "1d", True])
def test_nonsense(period: Any) -> None:
    """D5, D35: it is refused before anything is opened."""
    with pytest.raises(ConfigError, match="dead_tasks_retention_period"):
        configure("sql", url="sqlite:///nowhere.db", dead_tasks_retention_period=period)
