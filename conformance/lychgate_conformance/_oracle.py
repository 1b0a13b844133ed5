"""The oracle: what a set of acknowledged and unfinished calls allows to be seen.

One oracle for everything that the suite and the crash lab do: threads and processes that race, a
process that is killed, an image that a crash leaves. It knows the facade's meaning (D2, D12, D16,
D17, D26, W2, W7, W12) and nothing of files.

    a call that returned            took effect once, between its begin and its end
    a call that failed for sure     took no effect
    any other call (killed, or      took effect once between its begin and its end, or never; so a
    failed and nobody knows)        record seen absent after that does not appear later (D29)

A history is allowed when its calls can be put into one order that respects real time and gives the
results that were seen (linearisability with crashes). The search keeps every state that is still
possible and moves it from one begin or end to the next, so that its cost is set by how many calls
overlap, not by how many there are.

What a crash of the host leaves possible is the affair of `_after_crash`.

How the crash lab uses it: `outcomes(history)` once per crash point, then one look-up per image.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lychgate_conformance._claims import Claims

# --- what is stored ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """A dead task. `body` is all of it but times, in one canonical text."""

    task_id: str
    body: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task that waits, and which worker holds it."""

    holder: int
    task_id: str
    body: str
    publish_at: float | None


@dataclass(frozen=True, slots=True)
class State:
    """The abstract store: dead tasks in order, waiting tasks, workers that are alive."""

    dead: tuple[Record, ...] = ()
    tasks: frozenset[Task] = frozenset()
    alive: frozenset[int] = frozenset()


# --- what is done -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddDead:
    record: Record


@dataclass(frozen=True, slots=True)
class RemoveDead:
    """Result: how many distinct ids were found."""

    task_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ListDead:
    """Result: tuple of `Record`."""

    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FindDead:
    """Result: `Record` or None."""

    task_id: str


@dataclass(frozen=True, slots=True)
class SeeAbsent:
    """What is left of a read after a host crash: none of these records was there."""

    records: frozenset[Record]


@dataclass(frozen=True, slots=True)
class AddTask:
    task_id: str
    body: str
    publish_at: float | None = None


@dataclass(frozen=True, slots=True)
class RemoveTask:
    task_id: str


@dataclass(frozen=True, slots=True)
class ListPending:
    """Result: tuple of (task_id, body, publish_at), in any order."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A worker opens the store and takes over what the dead ones held (W2).

    `alone`: nobody else opened it at the same time; otherwise each takes a part.
    """

    alone: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """A worker closed the store, exited or was killed; what it held waits for the next one."""


Operation = (
    AddDead
    | RemoveDead
    | ListDead
    | FindDead
    | SeeAbsent
    | AddTask
    | RemoveTask
    | ListPending
    | Begin
    | End
)
READS = (ListDead, FindDead, ListPending)


class Fate(enum.Enum):
    """What is known of a call."""

    RETURNED = "returned"
    MAYBE = "may have happened"
    FAILED = "did not happen"


@dataclass(frozen=True, slots=True)
class Did:
    """One call of one worker. Times are any integers of one clock."""

    worker: int
    operation: Operation
    begun: int
    ended: int
    fate: Fate = Fate.RETURNED
    result: object = None

    def __post_init__(self) -> None:
        assert self.begun <= self.ended, "a call ends after it begins"


@dataclass(frozen=True, slots=True)
class Rules:
    """The claims that change what may be seen."""

    pending_scope: str = "owned_all"
    list_order: str = "file"
    duplicates: str = "kept"

    @classmethod
    def of(cls, claims: Claims) -> Rules:
        return cls(claims.pending_scope, claims.list_order, claims.duplicates)


# --- one step ---------------------------------------------------------------------------------


def steps(state: State, did: Did, rules: Rules) -> Iterator[State]:
    """The states that `did` can lead to; none when its result cannot be seen in `state`."""
    operation = did.operation
    seen = did.result if did.fate is Fate.RETURNED else _UNKNOWN
    if isinstance(operation, AddDead):
        older = state.dead
        if rules.duplicates == "newest":
            older = tuple(it for it in older if it.task_id != operation.record.task_id)
        yield replace(state, dead=(*older, operation.record))
    elif isinstance(operation, RemoveDead):
        kept = tuple(it for it in state.dead if it.task_id not in operation.task_ids)
        found = len({it.task_id for it in state.dead} & operation.task_ids)
        if seen is _UNKNOWN or seen == found:
            yield replace(state, dead=kept)
    elif isinstance(operation, SeeAbsent):
        if operation.records.isdisjoint(state.dead):
            yield state
    elif isinstance(operation, READS):
        if seen is _UNKNOWN or _readable(state, did, rules):
            yield state
    else:
        yield from _task_steps(state, did, operation, rules)


_UNKNOWN = object()


def _task_steps(
    state: State, did: Did, operation: AddTask | RemoveTask | Begin | End, rules: Rules
) -> Iterator[State]:
    if isinstance(operation, Begin):
        yield from _take_over(
            replace(state, alive=state.alive | {did.worker}), did.worker, operation
        )
    elif isinstance(operation, End):
        yield replace(state, alive=state.alive - {did.worker})
    else:
        shared = rules.pending_scope != "owned_all"
        others = frozenset(
            it
            for it in state.tasks
            if it.task_id != operation.task_id or not (shared or it.holder == did.worker)
        )
        if isinstance(operation, AddTask):
            new = Task(did.worker, operation.task_id, operation.body, operation.publish_at)
            others = others | {new}
        yield replace(state, tasks=others)


def _take_over(state: State, worker: int, operation: Begin) -> Iterator[State]:
    dead_holders = sorted({it.holder for it in state.tasks} - state.alive)
    parts = [tuple(dead_holders)] if operation.alone else _subsets(dead_holders)
    for part in parts:
        takes = {worker, *part}
        kept = frozenset(it for it in state.tasks if it.holder not in takes)
        by_id: dict[str, set[Task]] = {}
        for it in state.tasks - kept:
            by_id.setdefault(it.task_id, set()).add(replace(it, holder=worker))
        for choice in itertools.product(*by_id.values()):  # one id in two files: either (W12)
            yield replace(state, tasks=kept | frozenset(choice))


def _subsets(items: Sequence[int]) -> list[tuple[int, ...]]:
    return [it for size in range(len(items) + 1) for it in itertools.combinations(items, size)]


def _readable(state: State, did: Did, rules: Rules) -> bool:
    operation, result = did.operation, did.result
    if isinstance(operation, FindDead):
        records = [it for it in state.dead if it.task_id == operation.task_id]
        return result == (records[-1] if records else None)
    if isinstance(operation, ListPending):
        assert isinstance(result, tuple)
        if len(result) != len(set(result)):
            return False
        live = pending_view(state, did.worker, rules)
        return (
            set(result) <= live if rules.pending_scope == "due_unclaimed" else set(result) == live
        )
    assert isinstance(operation, ListDead) and isinstance(result, tuple)
    last = None if operation.limit is None else operation.offset + operation.limit
    page = state.dead[operation.offset : last]
    if rules.list_order == "file":
        return result == page
    return len(result) == len(page) and not Counter(result) - Counter(state.dead)


def pending_view(
    state: State, worker: int, rules: Rules
) -> frozenset[tuple[str, str, float | None]]:
    """What `pending_tasks` of a worker shows."""
    mine = rules.pending_scope == "owned_all"
    return frozenset(
        (it.task_id, it.body, it.publish_at)
        for it in state.tasks
        if it.holder == worker or not mine
    )


# --- whole histories --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """The first call that no allowed order explains, and the states that were possible before."""

    did: Did
    before: frozenset[State]

    def __str__(self) -> str:
        state = min(self.before, key=lambda it: (len(it.dead) + len(it.tasks), repr(it)))
        dead = [it.task_id for it in state.dead]
        tasks = sorted(it.task_id for it in state.tasks)
        also = f" (or {len(self.before) - 1} other states)" if len(self.before) > 1 else ""
        return (
            f"worker {self.did.worker}: {_shown(self.did)} cannot follow from "
            f"dead={_cut(dead)} waiting={_cut(tasks)}{also}"
        )


def _shown(did: Did) -> str:
    result = did.result
    if isinstance(result, tuple):
        result = [it.task_id if isinstance(it, Record) else it[0] for it in result]
    return f"{did.operation} -> {_cut(result)}"


def _cut(value: object, limit: int = 300) -> str:
    text = ascii(value)
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


def outcomes(
    history: Iterable[Did], rules: Rules, initial: Iterable[State] = (State(),)
) -> frozenset[State] | Violation:
    """The states in which the history can have left the store, or why it cannot have happened.

    Raises TooMany where too many calls may have happened or not.
    """
    dids = [did for did in history if did.fate is not Fate.FAILED]
    events = [(did.begun, 0, i) for i, did in enumerate(dids)]
    events += [(did.ended, 1, i) for i, did in enumerate(dids)]
    configs: set[_Config] = {(state, frozenset()) for state in initial}
    running: set[int] = set()
    for _, is_end, i in sorted(events):
        if not is_end:
            running.add(i)
            continue
        after = _settle(configs, running, i, dids, rules)
        if not after:
            return Violation(dids[i], frozenset(state for state, _ in configs))
        running.discard(i)
        configs = after
    assert not running, "every call that began also ended"
    return frozenset(state for state, _ in configs)


CONFIGS_MAX = 20_000


class TooMany(Exception):
    """More than CONFIGS_MAX states stayed possible: too much of the history is unknown."""


_Config = tuple[State, frozenset[int]]
"""A possible state, and which of the running calls have taken effect in it."""


def _settle(
    configs: set[_Config], running: set[int], ending: int, dids: Sequence[Did], rules: Rules
) -> set[_Config]:
    """The configurations in which call `ending` has taken effect, or never will."""
    settled: set[_Config] = set()
    seen = set(configs)
    stack = list(configs)
    while stack:
        state, effective = stack.pop()
        if ending in effective:
            settled.add((state, effective - {ending}))
            continue
        if dids[ending].fate is Fate.MAYBE:
            settled.add((state, effective))
        for i in running - effective:
            for after in steps(state, dids[i], rules):
                config = (after, effective | {i})
                if len(seen) > CONFIGS_MAX:
                    raise TooMany(f"more than {CONFIGS_MAX} states are possible")
                if config not in seen:
                    seen.add(config)
                    stack.append(config)
    return settled
