"""What a crash leaves possible: the oracle's states after it, and what may be seen of them.

Rules of this file
  * After a host crash reads bind nothing but acknowledged records (D34), except that what was seen
    absent stays absent (D29).
  * What was acknowledged and is not durable yet may be gone (W3).
  * The end of a process takes nothing away; a call that was running may have happened or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from lychgate_conformance._oracle import (
    READS,
    AddDead,
    Begin,
    Did,
    Fate,
    FindDead,
    ListDead,
    Record,
    Rules,
    SeeAbsent,
    State,
    Violation,
    outcomes,
    pending_view,
    steps,
)


def after_host_crash(
    history: Iterable[Did],
    rules: Rules,
    durable: Callable[[Did], bool],
    initial: Iterable[State] = (State(),),
) -> frozenset[State]:
    """The states that a host crash at the end of the history may leave.

    A call that returned and of which `durable` is not true may be lost; so may one that was
    running. What a read showed without an acknowledgement binds nothing (D34).
    """
    kept = []
    for did in without_sights(history):
        lost = did.fate is Fate.RETURNED and not durable(did)
        kept.append(replace(did, fate=Fate.MAYBE, result=None) if lost else did)
    states = outcomes(kept, rules, initial)
    assert not isinstance(states, Violation), "without reads only a count can contradict"
    return frozenset(replace(state, alive=frozenset()) for state in states)


def without_sights(history: Iterable[Did]) -> Iterator[Did]:
    """The history with every read weakened to what a host crash leaves of it: that a dead task
    whose add may have happened, and had ended, was not there (D29)."""
    doubtful: list[tuple[int, Record]] = []
    for did in sorted(history, key=lambda it: it.ended):
        operation = did.operation
        if isinstance(operation, AddDead) and did.fate is Fate.MAYBE:
            doubtful.append((did.ended, operation.record))
        if not isinstance(operation, READS):
            yield did
        elif did.fate is Fate.RETURNED:
            earlier = (record for ended, record in doubtful if ended < did.begun)
            absent = frozenset(record for record in earlier if _shows_absent(did, record))
            if absent:
                yield replace(did, operation=SeeAbsent(absent))


def _shows_absent(did: Did, record: Record) -> bool:
    operation = did.operation
    if isinstance(operation, FindDead):
        return did.result is None and operation.task_id == record.task_id
    whole = isinstance(operation, ListDead) and operation.limit is None and operation.offset == 0
    return whole and isinstance(did.result, tuple) and record not in did.result


@dataclass(frozen=True, slots=True)
class View:
    """What somebody who opens the store, and is alone, sees of it."""

    dead: tuple[Record, ...]
    pending: frozenset[tuple[str, str, float | None]]


def views(states: Iterable[State], rules: Rules, worker: int = -1) -> frozenset[View]:
    """Everything that a new, lone worker may see after any of the states."""
    opened = Did(worker, Begin(), 0, 0)
    return frozenset(
        View(after.dead, pending_view(after, worker, rules))
        for state in states
        for after in steps(replace(state, alive=frozenset()), opened, rules)
    )


def fits(view: View, allowed: frozenset[View], rules: Rules) -> bool:
    """Whether a view is one of those that are allowed."""
    if rules.pending_scope != "due_unclaimed":
        return view in allowed
    return any(view.dead == it.dead and view.pending <= it.pending for it in allowed)
