"""What may be seen of the dead tasks in a run: the suite's oracle decides, here is how it is asked.

Rules of this file
  * There is one oracle: a list, a find, a count or an image is allowed when `_oracle.outcomes` can
    put the calls of the run into an order that explains it. Nothing here decides; a contradiction
    is only given the name by which findings, mutants and plans know it.
  * A read binds what comes after it until the host crashes, or a failed sync has taken back what
    the kernel had (`binding` is false then); beyond that it says only what was absent (D29, D34).
  * A call that is still under way may have happened or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lychgate_conformance import _oracle as suite
from lychgate_conformance._after_crash import without_sights
from lychgate_conformance._oracle import Did, Fate, Rules, State, Violation
from lychgate_conformance.lab._oracle import ACKED, MAYBE, NO, Change, Oracle, Record

_RULES = Rules()
_FATES = {ACKED: Fate.RETURNED, MAYBE: Fate.MAYBE, NO: Fate.FAILED}


def _word(record: Record) -> suite.Record:
    return suite.Record(record[0], str(record[1]))


def _back(record: suite.Record) -> Record:
    return record.task_id, int(record.body)


def listed(change: Change, shown: Sequence[Record]) -> Did:
    """A list of the whole store that has returned."""
    return _read(change, suite.ListDead(), tuple(map(_word, shown)))


def found(change: Change, key: str, record: Record | None) -> Did:
    """A find that has returned."""
    return _read(change, suite.FindDead(key), None if record is None else _word(record))


def _read(change: Change, operation: suite.Operation, result: object) -> Did:
    return Did(0, operation, change.start, change.end, Fate.RETURNED, result)


def history(model: Oracle, binding: bool) -> Iterator[Did]:
    """The calls on the dead tasks so far; reads at full strength only as far as they bind."""
    since = model.host_crash if binding else model.time + 1
    changes = [
        _did(model, it, suite.AddDead(_word(record)))
        for record, it in model.adds
        if it.start > 0  # the others are in the state at first
    ]
    for key, removals in model.removals.items():
        operation = suite.RemoveDead(frozenset((key,)))
        changes += [_did(model, it, operation) for it in removals]
    yield from without_sights([*changes, *(it for it in model.reads if it.begun < since)])
    yield from (it for it in model.reads if it.begun >= since)


def _did(model: Oracle, change: Change, operation: suite.Operation) -> Did:
    fate = _FATES.get(change.status, Fate.MAYBE)
    ended = min(change.end, model.time + 1)
    return Did(0, operation, change.start, ended, fate, change.count)


def possible(model: Oracle, binding: bool) -> frozenset[tuple[Record, ...]]:
    """What the store may hold now, oldest record first; empty when the run contradicts itself."""
    states = suite.outcomes(history(model, binding), _RULES, _initial(model))
    if isinstance(states, Violation):
        return frozenset()
    return frozenset(tuple(map(_back, state.dead)) for state in states)


def _initial(model: Oracle) -> tuple[State]:
    return (State(tuple(map(_word, model.first))),)


def image_contradiction(model: Oracle, shown: Sequence[Record], binding: bool) -> str:
    """What is wrong with what a new process sees; empty when nothing is."""
    allowed = model.possible.get(binding)
    if allowed is None:
        allowed = model.possible[binding] = possible(model, binding)
    return "" if tuple(shown) in allowed else _name(model, shown, allowed)


def list_contradiction(model: Oracle, read: Did, shown: Sequence[Record], binding: bool) -> str:
    """What is wrong with a list that has returned."""
    if _explained(model, read, binding):
        return ""
    return _name(model, shown, possible(model, binding))


def find_contradiction(model: Oracle, read: Did, record: Record | None, binding: bool) -> str:
    """What is wrong with a find that has returned."""
    if _explained(model, read, binding):
        return ""
    assert isinstance(read.operation, suite.FindDead)
    key = read.operation.task_id
    if record is None:
        return f"acknowledged-add-lost: find gave nothing for {key}"
    if record[0] != key:
        return f"wrong-record-found: {record} for {key}"
    if why := _why_hidden(model, record, possible(model, binding)):
        return f"{why}: {record} (find)"
    return f"older-record-found: {record}"


def count_contradiction(model: Oracle, change: Change, key: str, binding: bool) -> str:
    """What is wrong with the count that a removal, noted as finished, has given."""
    if possible(model, binding):
        return ""
    return f"wrong-count: {change.count} for {key}"


def _explained(model: Oracle, read: Did, binding: bool) -> bool:
    dids = [*history(model, binding), read]
    return not isinstance(suite.outcomes(dids, _RULES, _initial(model)), Violation)


# --- names --------------------------------------------------------------------------------------


def _name(model: Oracle, shown: Sequence[Record], allowed: frozenset[tuple[Record, ...]]) -> str:
    """The name of a contradiction between what was shown and what is allowed."""
    if len(set(shown)) != len(shown):
        twice = next(it for place, it in enumerate(shown) if it in shown[:place])
        return f"duplicate-record: {twice}"
    for record in shown:
        if why := _why_hidden(model, record, allowed):
            return f"{why}: {record}"
    for record in _records(model):
        if record not in shown and allowed and all(record in view for view in allowed):
            return f"acknowledged-add-lost: {record}"
    if any(set(view) == set(shown) for view in allowed):
        return f"order-changed: {list(shown)}"
    return f"no-order-explains: {list(shown)}"


def _why_hidden(model: Oracle, record: Record, allowed: frozenset[tuple[Record, ...]]) -> str:
    """Why a record must not be there; empty when it may."""
    if record not in _records(model):
        return "alien-record"
    if any(record in view for view in allowed):
        return ""
    adds = [add for known, add in model.adds if known == record]
    if all(add.status == NO for add in adds):
        return "definite-failure-visible"
    removals = model.removals.get(record[0], ())
    if any(it.status == ACKED and it.start > adds[-1].end for it in removals):
        return "removed-came-back"
    return "absent-came-back"


def _records(model: Oracle) -> list[Record]:
    return [record for record, _ in model.adds]
