"""The SQL backend takes every edge of its model's graphs, and a backend with a fault does not.

The larger graphs (Sql, SqlRetry, SqlClocks, SqlPair, SqlBad, SqlLimits) are walked by
`lychgate walk`; here the small ones are, and the faults are looked for in one that shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from lychgate._sql_store import Statements, Token
from lychgate._sql_worker import Worker
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.sql import Side
from lychgate_tools.walk.sql_graph import atomic
from lychgate_tools.walk.tour import Walk, walk

Patch = Callable[[pytest.MonkeyPatch], None]


@cache
def model(name: str) -> tuple[Graph, str]:
    """The graph of a model as one writer has it, and its model file."""
    spec = locate()
    config = spec.config(f"models/{name}.cfg")
    return atomic(graphs.load(spec.modules(), "Sql", config)), config


def walked(name: str) -> Walk:
    graph, config = model(name)
    return walk(graph, Side(graph, config))


@pytest.mark.parametrize("name", ["SqlKiller", "SqlLossLive", "SqlBadLive", "SqlLive"])
def test_every_edge_is_taken(name: str) -> None:
    """Q4-Q7, U7: tables, tokens and doubts are the model's after each step."""
    done = walked(name)
    assert done.complete and done.edges > 500, done.failure and done.failure[1]


def statement(name: str, method: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(Statements, name, method)


def worker(name: str, method: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(Worker, name, method)


def unfenced(self: Statements, db: Any, key: str, token: Token) -> bool:
    return bool(db.change("DELETE FROM lychgate_tasks WHERE id = :id", {"id": key}) == 1)


def forgets_tasks(self: Statements, db: Any) -> tuple[int, int]:
    found = db.rows(self._stale_workers, {"stale": self._stale})
    for row in found:
        db.change("DELETE FROM lychgate_workers WHERE id = :id", {"id": row[0]})
    return len(found), 0


def keeps_workers(self: Statements, db: Any) -> tuple[int, int]:
    for row in db.rows(self._stale_workers, {"stale": self._stale}):
        sql = "UPDATE lychgate_tasks SET owner_id = NULL WHERE owner_id = :id"
        db.change(sql, {"id": row[0]})
    return 0, 0


def counted_stop(self: Statements, db: Any, me: str) -> int:
    db.change("DELETE FROM lychgate_workers WHERE id = :me", {"me": me})
    db.change("UPDATE lychgate_tasks SET owner_id = NULL WHERE owner_id = :me", {"me": me})
    return 0


def silent_stop(self: Statements, db: Any, me: str) -> int:
    return int(db.change("DELETE FROM lychgate_workers WHERE id = :me", {"me": me}))


def keeps_row(self: Statements, db: Any, row: Any, token: Any) -> bool:
    self.add_dead(db, row)
    return True


def by_key(self: Worker, key: str, token: Token) -> bool:
    return key in self._held


claim = Statements.claim


def any_worker(self: Statements, db: Any, me: str, batch: int, suspects: int) -> Any:
    db.change("UPDATE lychgate_workers SET heartbeat_at = 4e9 WHERE id = :me", {"me": me})
    return claim(self, db, me, batch, suspects)


FAULTS: dict[str, tuple[str, Patch]] = {
    "a finish without a fence": ("SqlLive", statement("finish", unfenced)),
    "a sweep forgets the tasks": ("SqlLive", statement("sweep", forgets_tasks)),
    "a sweep keeps the workers": ("SqlLive", statement("sweep", keeps_workers)),
    "a stop counts as a death": ("SqlLive", statement("stop", counted_stop)),
    "a stop keeps the tasks": ("SqlLive", statement("stop", silent_stop)),
    "a burial leaves the row": ("SqlBadLive", statement("bury", keeps_row)),
    "a lost answer is forgotten": ("SqlLossLive", worker("_note", lambda self, error: None)),
    "an old token keeps a task": ("Sql", worker("_has", by_key)),
    "a heartbeat is not sent": ("SqlLive", statement("beat", lambda self, db, me: True)),
    "a stale worker claims": ("SqlLive", statement("claim", any_worker)),
    "a retry keeps the task": (
        "SqlRetry",
        statement("retry", lambda self, db, key, token, data, codec, at: True),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Q4-Q7: each fault makes engine and model part ways on some edge."""
    name, patch = FAULTS[fault]
    model(name)
    patch(monkeypatch)
    done = walked(name)
    assert done.failure is not None and done.failure[1]
