"""What the engine's sides share: comparing two states, and who may take which step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lychgate_tools.tlc.values import render
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch

View = Mapping[str, object]
"""A state as both sides can show it: what is compared, by name."""


def compare_views(engine: View, model: View) -> None:
    """Raises Mismatch with a diff of the two, if they differ."""
    if engine == model:
        return
    lines = [
        line
        for name in sorted({*engine, *model})
        if engine.get(name) != model.get(name)
        for line in (
            f"- model  {name}: {render(model.get(name))}",
            f"+ engine {name}: {render(engine.get(name))}",
        )
    ]
    raise Mismatch("engine and model differ\n" + "\n".join(lines))


class Bijection:
    """Inode numbers of model and engine, one to one."""

    def __init__(self) -> None:
        self._to: dict[int, int] = {0: 0}
        self._from: dict[int, int] = {0: 0}

    def pair(self, what: str, model: int, engine: int) -> None:
        if self._to.setdefault(model, engine) != engine or (
            self._from.setdefault(engine, model) != model
        ):
            raise Mismatch(f"{what} is inode {engine}, in the model {model}, by {self._to}")


class Labels:
    """Numbers for inodes in the order of their first mention: equal on both sides exactly when
    the same places lead to the same inodes."""

    def __init__(self) -> None:
        self._found: dict[object, int] = {}

    def of(self, inode: object) -> int:
        return self._found.setdefault(inode, len(self._found) + 1)


class Steps:
    """Whose step each edge is, and which steps have an edge (by state, worked out once)."""

    def __init__(self, graph: Graph, who: Callable[[int, str, int], str]) -> None:
        self._graph = graph
        self.who = who
        self._allowed: dict[int, frozenset[tuple[str, str]]] = {}

    def allowed(self, state: int) -> frozenset[tuple[str, str]]:
        """Who may do what here. A step that changes nothing counts for everybody."""
        if state not in self._allowed:
            self._allowed[state] = frozenset(
                ("" if target == state else self.who(state, action, target), action)
                for action, target in self._graph.edges[state]
            )
        return self._allowed[state]

    def check(self, state: int, would: Iterable[tuple[str, str]]) -> None:
        """Raises Mismatch when the engine would take a step that has no edge."""
        allowed = self.allowed(state)
        for who, action in would:
            if (who, action) not in allowed and ("", action) not in allowed:
                known = ", ".join(sorted(a for w, a in allowed if w == who)) or "nothing"
                raise Mismatch(
                    "the engine takes a step that the model cannot\n"
                    f"- model  {who}: {known}\n+ engine {who}: {action}"
                )


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The keys under which two functions differ."""
    return [key for key in before if before[key] != after[key]]
