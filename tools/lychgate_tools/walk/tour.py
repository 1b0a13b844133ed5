"""A way over every edge of a graph, and the walk along it.

The engine's coroutines cannot be copied, so a state is reached by replaying a path to it. From
there the walk goes on along untried edges as far as they lead, and starts again where some are
left. States that can be built directly (nobody is inside a call) are starts as well as the initial
ones, which keeps the paths short.

A crash of the host leaves nothing of the engine but a disk, which is taken from the model: so there
is no step to take, and the state behind such an edge is built and compared, once for all edges that
lead to it. `Side.rebuilds` names these actions.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lychgate_tools.walk.graph import Graph


class World(Protocol):
    """The engine beside the model: in one state, able to follow one edge."""

    def step(self, source: int, action: str, target: int) -> None:
        """Take the step on the engine. Raises Mismatch when it cannot."""

    def compare(self, state: int) -> None:
        """Raises Mismatch when the engine's whole state is not the model's."""

    def close(self) -> None:
        """Let go of everything."""


class Side(Protocol):
    """What stands beside a graph: which states can be built, and the engine in one of them."""

    rebuilds: frozenset[str]

    def starts(self) -> list[int]: ...

    def world(self, state: int) -> World: ...


class Mismatch(Exception):
    """Engine and model part ways; the message shows both sides."""


@dataclass
class Walk:
    """What a walk did. `failure` is None, or the path of states and actions that failed."""

    edges: int
    walked: int = 0
    steps: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failure: tuple[list[tuple[int, str, int]], str] | None = None

    @property
    def complete(self) -> bool:
        return self.failure is None and self.walked == self.edges


def walk(
    graph: Graph, side: Side, on_progress: Callable[[int], None] = lambda walked: None
) -> Walk:
    """Walk every edge that leads from one state to another. Self-loops change nothing and are
    stutters of the spec, except where the engine takes a step in them: none does."""
    done = Walk(edges=0)
    untried: list[list[tuple[str, int]]] = []
    rebuilt: dict[int, str] = {}
    for state, out in enumerate(graph.edges):
        edges = [(action, target) for action, target in reversed(out) if target != state]
        untried.append([edge for edge in edges if edge[0] not in side.rebuilds])
        rebuilt.update((target, action) for action, target in edges if action in side.rebuilds)
        done.edges += len(edges)
        done.walked += len(edges) - len(untried[-1])
    tree = _tree(graph, side.starts())
    assert all(tree.above[state] is None for state in rebuilt), "what a crash leaves can be built"
    for state, action in rebuilt.items():
        if not _is_built(side, state, action, done):
            return done
    for state in tree.order:
        while untried[state]:
            path = tree.path(state)
            world = side.world(path[0][0] if path else state)
            try:
                _follow(graph, world, path, state, untried, done)
            except Exception as error:
                assert done.failure is not None
                done.failure = (done.failure[0], _said(error))
                return done
            finally:
                world.close()
            on_progress(done.walked)
    return done


def _is_built(side: Side, state: int, action: str, done: Walk) -> bool:
    """Whether the engine finds what a crash has left."""
    world = side.world(state)
    done.steps += 1
    try:
        world.compare(state)
        return True
    except Exception as error:
        done.failure = ([(state, action, state)], _said(error))
        return False
    finally:
        world.close()


def _said(error: Exception) -> str:
    """A mismatch says it all; of an engine that breaks, the path to it is worth more than a trace
    of calls."""
    if isinstance(error, Mismatch):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    name = type(error).__name__
    return f"{name} in {where.name}, line {where.lineno} of {where.filename}: {error}"


def _follow(
    graph: Graph,
    world: World,
    path: list[tuple[int, str, int]],
    state: int,
    untried: list[list[tuple[str, int]]],
    done: Walk,
) -> None:
    taken: list[tuple[int, str, int]] = []
    done.failure = (taken, "")
    for edge in path:
        taken.append(edge)
        world.step(*edge)
        done.steps += 1
    if not path:
        world.compare(state)
    while untried[state]:
        action, target = untried[state].pop()
        taken.append((state, action, target))
        world.step(state, action, target)
        world.compare(target)
        done.steps += 1
        done.walked += 1
        state = target
    done.failure = None


class _Tree:
    """Breadth-first from the starts: how each state is first reached."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.above: dict[int, tuple[int, str] | None] = {}

    def path(self, state: int) -> list[tuple[int, str, int]]:
        found: list[tuple[int, str, int]] = []
        while (step := self.above[state]) is not None:
            found.append((step[0], step[1], state))
            state = step[0]
        return found[::-1]


def _tree(graph: Graph, starts: list[int]) -> _Tree:
    tree = _Tree()
    tree.order = list(starts)
    tree.above = {state: None for state in starts}
    for state in tree.order:
        for action, target in graph.edges[state]:
            if target not in tree.above:
                tree.above[target] = (state, action)
                tree.order.append(target)
    assert len(tree.order) == len(graph.states), "every state is reached"
    return tree
