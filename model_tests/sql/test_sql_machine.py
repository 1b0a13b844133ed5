"""A Hypothesis machine for `Sql` on every engine, its rules the edges of Sql.tla's state graph.

The walk (`test_sql_walk.py`) takes every edge on SQLite, each from a state that was built for it;
here Hypothesis goes on from state to state, on real servers too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from walk import graph_machine
from walk.graph_machine import run

from lychgate._sql_split import SplitStatements
from lychgate._sql_store import Statements
from lychgate_tools.spec_dir import locate
from lychgate_tools.sql_server import SERVERS, SqlServer
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.sql import Side
from lychgate_tools.walk.sql_graph import atomic
from lychgate_tools.walk.tour import Mismatch

MODEL = "SqlRetry"
PATHS = {"sqlite": 25, "postgres": 4, "mariadb": 4}
"""Paths of up to 60 steps; LYCHGATE_GRAPH_EXAMPLES sets another number for all."""


@cache
def model() -> tuple[Graph, str]:
    """The graph of a model as one writer has it, and its model file."""
    spec = locate()
    config = spec.config(f"models/{MODEL}.cfg")
    return atomic(graphs.load(spec.modules(), "Sql", config)), config


def side_of(engine: str, request: pytest.FixtureRequest) -> Side:
    if engine not in SERVERS:
        return Side(*model())
    server: SqlServer = request.getfixturevalue(engine)
    return Side(*model(), server.new_schema())


@pytest.fixture(params=PATHS)
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Side:
    """The engine on each database, and how many paths it takes there."""
    chosen, usual = graph_machine.examples(), PATHS[request.param]
    monkeypatch.setattr(graph_machine, "examples", lambda: usual if chosen == 25 else chosen)
    return side_of(request.param, request)


def test_paths_of_the_model(side: Side) -> None:
    """Q4-Q7, U2, U7: whatever path Hypothesis takes, tables, tokens and doubts are the model's."""
    assert len(run(side.graph, side).edges) > 40


def no_retry(self: Statements, *_: object) -> bool:
    return True


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "sqlite": lambda patch: patch.setattr(Statements, "retry", no_retry),
    "mariadb": lambda patch: patch.setattr(SplitStatements, "claim", Statements.claim),
}


@pytest.mark.parametrize("engine", FAULTS)
def test_a_fault_is_found(
    engine: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4, Q5: a retry that changes nothing; a claim that looks, and does not take."""
    side = side_of(engine, request)
    FAULTS[engine](monkeypatch)
    with pytest.raises(Mismatch):
        run(side.graph, side, shrinks=False)
