"""A Hypothesis state machine made of a state graph: its rules are the edges of the current state.

Nothing about allowed steps is written down here. A rule is an action of the graph, enabled where
the current state has an edge of that name; its argument picks one of these edges. Hypothesis picks
and shrinks paths, the engine's side of the walk takes each step and compares the two whole states
(`lychgate_tools.walk`). In every state the steps that the engine would take next must be among the
edges: an action without an edge is thereby disabled in the engine as well.

LYCHGATE_GRAPH_EXAMPLES is the number of paths tried on each graph (25), for long runs at night.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch, Side

STEPS = 60
PICKS = 100  # edges of one name that a rule can tell apart


class Paths:
    """What a machine of one graph did, over all its examples."""

    def __init__(self) -> None:
        self.edges: set[tuple[int, str, int]] = set()
        self.last: list[str] = []  # the actions of the latest example: at the end the shrunk one


def examples() -> int:
    """How many paths to try."""
    return int(os.environ.get("LYCHGATE_GRAPH_EXAMPLES", "25"))


def run(
    graph: Graph,
    side: Side,
    expanded: Collection[int] | None = None,
    paths: Paths | None = None,
    shrinks: bool = True,
) -> Paths:
    """Let Hypothesis choose paths; raises what the engine's side raises, on the shortest one.

    `expanded` are the states that have all their edges, all if None. A step to another one is taken
    and then undone, by taking the path to the state before it once more; there the path goes on
    along an edge that leads to a state with edges, if there is one.
    """
    paths = Paths() if paths is None else paths
    known = range(len(graph.states)) if expanded is None else expanded
    run_state_machine_as_test(
        machine_of(graph, side, known, paths),
        settings=settings(
            max_examples=examples(),
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=True,
            print_blob=False,
            phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    return paths


def machine_of(
    graph: Graph, side: Side, expanded: Collection[int], paths: Paths
) -> type[RuleBasedStateMachine]:
    """The machine's class: one rule for each action of the graph."""
    actions = sorted({action for out in graph.edges for action, _ in out})
    rules = {action: _rule(action) for action in actions}
    return type("Paths", (_Machine,), {**rules, "bound": (graph, side, expanded, paths)})


class _Machine(RuleBasedStateMachine):
    bound: tuple[Graph, Side, Collection[int], Paths]

    def __init__(self) -> None:
        super().__init__()
        self.graph, self.side, self.expanded, self.paths = self.bound
        self.state = -1
        self.world: Any = None

    @initialize(pick=st.integers(0, PICKS - 1))
    def begin(self, pick: int) -> None:
        self.paths.last = []
        self.start(pick)

    @precondition(lambda self: self.is_at_an_end())
    @rule(pick=st.integers(0, PICKS - 1))
    def begin_again(self, pick: int) -> None:
        """Where nothing is possible any more another path begins."""
        self.world.close()
        self.start(pick)

    def is_at_an_end(self) -> bool:
        return not any(target != self.state for _, target in self.graph.edges[self.state])

    def start(self, pick: int) -> None:
        starts = self.graph.initial
        self.state = starts[pick % len(starts)]
        self.world = self.side.world(self.state)
        self.way: list[tuple[int, str, int]] = []

    def edges(self, action: str) -> list[int]:
        """Where the edges of that name lead. A self-loop changes nothing and is no step."""
        if self.state < 0:
            return []
        out = self.graph.edges[self.state]
        return [target for name, target in out if name == action and target != self.state]

    def follow(self, action: str, pick: int) -> None:
        targets = self.edges(action)
        target = targets[pick % len(targets)]
        self.take(action, target)
        if target in self.expanded:
            return
        self.step_back()
        known = [edge for edge in self.graph.edges[self.state] if edge[1] in self.expanded]
        onward = [edge for edge in known if edge[1] != self.state]
        if onward:
            self.take(*onward[pick % len(onward)])

    def take(self, action: str, target: int) -> None:
        edge = self.state, action, target
        self.paths.last.append(action)
        self.paths.edges.add(edge)
        self.world.step(*edge)
        if target in self.expanded:
            self.way.append(edge)
            self.state = target

    def step_back(self) -> None:
        self.world.close()
        self.world = self.side.world(self.way[0][0] if self.way else self.state)
        for edge in self.way:
            self.world.step(*edge)

    @invariant()
    def both_are_in_the_same_state(self) -> None:
        if self.state >= 0 and self.state in self.expanded:
            self.world.compare(self.state)
            check_pending(self.graph, self.world, self.state)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.close()


def check_pending(graph: Graph, world: Any, state: int) -> None:
    """The engine's next steps are edges, or are waited for: another one's step comes first."""
    names = {action for action, _ in graph.edges[state]}
    for who, action in pending_of(world, graph, state):
        if action not in names:
            raise Mismatch(f"{who} would take {action}, and the model has no edge of that name")


def pending_of(world: Any, graph: Graph, state: int) -> list[tuple[str, str]]:
    """Who is inside a call, by the model's `pc`, and the step that the engine would take."""
    if "pc" not in graph.variables:  # its calls are one step each
        return []
    pc: Any = graph.value(state, "pc")
    found: list[tuple[str, str]] = []
    for w, worker in world._workers.items():
        if worker is None:
            continue
        calls = getattr(worker, "calls", None)
        if calls is not None:
            found += [(f"{w}.{f}", call.pending.action) for f, call in calls.items()]
        elif worker.call is not None and "." in pc[w]:
            found.append((w, worker.call.pending.action))
    return found


def _rule(action: str) -> Callable[..., None]:
    def take(self: _Machine, pick: int) -> None:
        self.follow(action, pick)

    take.__name__ = action
    enabled = precondition(lambda self: bool(self.edges(action)))
    made: Callable[..., None] = enabled(rule(pick=st.integers(0, PICKS - 1))(take))
    return made
