"""What the accepted traces visited: actions of the spec, and which step followed which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lychgate_tools.trace.check import Batch, Checker


@dataclass(frozen=True)
class Coverage:
    """`missing` are actions of the spec that no accepted trace took.

    `successions` counts the different pairs of one fiber's step and its next step.
    """

    actions: frozenset[str]
    missing: frozenset[str]
    successions: int


def of(checker: Checker, batches: Iterable[Batch]) -> dict[str, Coverage]:
    """The coverage of the accepted traces, by module."""
    found: dict[str, Coverage] = {}
    by_module: dict[str, list[Batch]] = {}
    for batch in batches:
        by_module.setdefault(batch.kind.module, []).append(batch)
    for module, some in by_module.items():
        kind = some[0].kind
        possible = set(checker.arms(kind)) - kind.unseen
        pairs = {pair for batch in some for pair in _successions(batch)}
        actions = {action for _, action in pairs} & possible
        found[module] = Coverage(frozenset(actions), frozenset(possible - actions), len(pairs))
    return found


def _successions(batch: Batch) -> Iterator[tuple[str, str]]:
    """Each step of an accepted trace with the step of the same fiber before it."""
    for trace, accepted in zip(batch.traces, batch.accepted, strict=True):
        before: dict[tuple[str, str], str] = {}
        for event in trace.events if accepted else ():
            who, action = (event.worker, event.fiber), batch.kind.action_of(event)
            yield before.get(who, ""), action
            before[who] = action
