"""The state graph of Sql as a database with one writer has it, such as SQLite.

A claim and a sweep have a Begin and a Commit in the model, for what others may do in between.
With one writing transaction at a time nobody does anything there: so the two are one edge here, and
what only an overlap leads to is left out. Tests with real processes on PostgreSQL are for that.
"""

from __future__ import annotations

from typing import Any

from lychgate_tools.walk.graph import Graph

_JOINED = {"ClaimCommit", "SweepCommit", "Rollback"}


def due(graph: Graph, state: int) -> frozenset[Any]:
    """The tasks that a claim may take."""
    owner: Any = graph.value(state, "owner")
    wait: Any = graph.value(state, "wait")
    here: Any = graph.value(state, "here")
    workers: Any = graph.value(state, "open")
    return frozenset(i for i in here if owner[i] not in workers and wait[i] == 0)


def atomic(graph: Graph) -> Graph:
    """The graph of a database with one writer: begin and end of a transaction are one edge.

    The model lets a claim take any batch; the engine takes what is due, so only such edges stay.
    """

    def opened(state: int) -> list[Any]:
        value: Any = graph.value(state, "open")
        return [tx for tx in value.values() if tx["kind"] != "none"]

    kept = [state for state in range(len(graph.states)) if not opened(state)]
    number = {state: index for index, state in enumerate(kept)}
    edges: list[list[tuple[str, int]]] = []
    for state in kept:
        out: dict[tuple[str, int], None] = {}
        for action, target in graph.edges[state]:
            if target in number:
                out[action, number[target]] = None
                continue
            (tx,) = opened(target)
            if tx["kind"] == "claim" and tx["ids"] != due(graph, state):
                continue
            for end, after in graph.edges[target]:
                if after in number and end in _JOINED:
                    kind = action.removesuffix("Begin")
                    out[kind + end.removeprefix(kind), number[after]] = None
        edges.append(list(out))
    states = [graph.states[state] for state in kept]
    initial = [number[state] for state in graph.initial]
    return Graph(graph.variables, graph.texts, states, initial, edges)
