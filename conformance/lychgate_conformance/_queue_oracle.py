"""The oracle of the delivery queue: what answered and unfinished calls allow to be seen (L1-L8).

One oracle for every level. A queue has one process and one consumer (L1), so that a history is a
sequence; what makes a set of states out of one are the calls that nobody has an answer of.

    a call that returned            took effect, durably, and with the result that was seen
    a call that failed for sure     took no effect
    any other call (killed, or      took effect or did not; what a later look has shown is settled
    failed and nobody knows)        by it

Rules of this file
  * A number is never given twice, and each is higher than every earlier one (L7). An item that was
    enqueued without an answer has a number above all others, which a look tells.
  * Times are pairs, not before and not after: with a clock that the suite sets both are the same.
  * An item can be claimed if it waits, or its lease or delay has run out; where it may or may not
    have, both are allowed. The lowest number comes first, if that is claimed.
  * A claim lasts beyond its lease until the item is claimed again: the first consumer may still
    finish (L5). One that shows an older receipt may not.
  * The first end of an item is its only one, and the first reason stays (L8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lychgate_conformance._claims import Claims
from lychgate_conformance._oracle import Fate
from lychgate_conformance._queue import Claimed, Item
from lychgate_conformance._wire import short

Span = tuple[int, int]
"""Milliseconds: not before, and not after."""

UNKNOWN = -1
"""The receipt of a claim that was not answered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An item that is not acked. `seq` is None while nobody knows its number; `reason` is that of
    its quarantine; it can be claimed from some moment of `free` on."""

    seq: int | None
    payload: bytes
    attempts: int = 0
    claimed: bool = False
    receipt: int | None = None
    free: Span = (0, 0)
    reason: str | None = None

    def may_be_claimed(self, when: Span) -> bool:
        return self.reason is None and self.free[0] <= when[1]

    def can_be_claimed(self, when: Span) -> bool:
        """For sure."""
        return self.reason is None and self.free[1] <= when[0]


@dataclass(frozen=True, slots=True)
class State:
    """The items in the order of their numbers, and the highest number that was ever seen."""

    entries: tuple[Entry, ...] = ()
    high: int = 0


# --- what is done -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Result: the item's number, FULL or TOO_LARGE."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """Result: `Claimed` or None."""

    lease_ms: int


@dataclass(frozen=True, slots=True)
class Finish:
    """What a consumer says of an item: `kind` is ack, retry or quarantine. Result: a word."""

    kind: str
    seq: int
    receipt: int | None
    delay_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Result: tuple of `Item`."""


Operation = Enqueue | Claim | Finish | Look


@dataclass(frozen=True, slots=True)
class Did:
    """One call, and when it ran by the queue's clock."""

    operation: Operation
    when: Span
    fate: Fate = Fate.RETURNED
    result: object = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The claims that change what may be seen."""

    in_order: bool = True
    receipts: bool = True

    @classmethod
    def of(cls, claims: Claims) -> Rules:
        return cls(claims.claim_order == "number", claims.receipts)


# --- one step ---------------------------------------------------------------------------------


def steps(state: State, did: Did, rules: Rules) -> Iterator[State]:
    """The states that `did` can lead to; none when its result cannot be seen in `state`."""
    if did.fate is Fate.FAILED:
        yield state
        return
    if did.fate is Fate.MAYBE:
        yield state
    match did.operation:
        case Enqueue(payload):
            yield from _enqueue(state, did, payload)
        case Claim(lease_ms):
            yield from _claim(state, did, lease_ms, rules)
        case Finish():
            yield from _finish(state, did, did.operation, rules)
        case Look():
            if did.fate is Fate.RETURNED:
                assert isinstance(did.result, tuple)
                found = matched(state, did.result, did.when)
                if found is not None:
                    yield found


def _enqueue(state: State, did: Did, payload: bytes) -> Iterator[State]:
    if did.fate is Fate.MAYBE:
        yield replace(state, entries=(*state.entries, Entry(None, payload)))
    elif isinstance(did.result, str):  # refused
        yield state
    else:
        assert isinstance(did.result, int)
        if did.result > state.high:
            yield State((*state.entries, Entry(did.result, payload)), did.result)


def _claim(state: State, did: Did, lease_ms: int, rules: Rules) -> Iterator[State]:
    when = did.when
    until = when[0] + lease_ms, when[1] + lease_ms
    claimed = did.result
    if did.fate is Fate.RETURNED and claimed is None:
        if not any(it.can_be_claimed(when) for it in state.entries):
            yield state
        return
    for place, entry in enumerate(state.entries):
        if did.fate is Fate.MAYBE:
            if entry.may_be_claimed(when):
                yield _with(state, place, _leased(entry, UNKNOWN, until))
        else:
            assert isinstance(claimed, Claimed)
            same = entry.payload == claimed.payload and _is_number(entry, claimed.seq, state)
            if same and entry.may_be_claimed(when) and until[0] <= claimed.until_ms <= until[1]:
                after = _leased(entry, claimed.receipt, (claimed.until_ms, claimed.until_ms))
                yield _with(state, place, replace(after, seq=claimed.seq))
        if rules.in_order and entry.can_be_claimed(when):
            return


def _leased(entry: Entry, receipt: int | None, until: Span) -> Entry:
    return replace(
        entry, attempts=entry.attempts + 1, claimed=True, receipt=receipt, free=until
    )


def _finish(state: State, did: Did, said: Finish, rules: Rules) -> Iterator[State]:
    place = next((n for n, it in enumerate(state.entries) if it.seq == said.seq), None)
    entry = None if place is None else state.entries[place]
    allowed = verdicts(state, entry, said, rules)
    if did.fate is Fate.RETURNED and did.result not in allowed:
        return
    if "OK" not in allowed or (did.fate is Fate.RETURNED and did.result != "OK"):
        if did.fate is Fate.RETURNED:
            yield state
        return
    assert place is not None and entry is not None
    if said.kind == "ack":
        yield replace(state, entries=state.entries[:place] + state.entries[place + 1 :])
    elif said.kind == "retry":
        free = did.when[0] + said.delay_ms, did.when[1] + said.delay_ms
        free = free if said.delay_ms else (0, did.when[1])
        yield _with(state, place, replace(entry, claimed=False, free=free))
    else:
        yield _with(state, place, replace(entry, claimed=False, reason=said.reason))


def verdicts(state: State, entry: Entry | None, said: Finish, rules: Rules) -> tuple[str, ...]:
    """The results that a consumer may get for what it says of an item."""
    if entry is None:
        return ("ALREADY_DONE",) if 0 < said.seq <= state.high else ("NOT_FOUND",)
    if entry.reason is not None:
        return ("ALREADY_DONE",)
    shown = said.receipt if rules.receipts else None
    if not entry.claimed:
        return ("NOT_CLAIMED",) if shown is None else ("NOT_CLAIMED", "CLAIM_LOST")
    if shown is None or shown == entry.receipt:
        return ("OK",)
    return ("OK", "CLAIM_LOST") if entry.receipt == UNKNOWN else ("CLAIM_LOST",)


def _with(state: State, place: int, entry: Entry) -> State:
    entries = (*state.entries[:place], entry, *state.entries[place + 1 :])
    return State(entries, max(state.high, entry.seq or 0))


def _is_number(entry: Entry, seq: int, state: State) -> bool:
    return seq > state.high if entry.seq is None else seq == entry.seq


# --- looking ----------------------------------------------------------------------------------


def matched(state: State, seen: tuple[Item, ...], when: Span) -> State | None:
    """The state with the numbers that a look has told; None when it shows something else."""
    if len(seen) != len(state.entries):
        return None
    found = state
    for place, item in enumerate(seen):
        entry = found.entries[place]
        if not _is_number(entry, item.seq, found) or not _shows(entry, item, when):
            return None
        found = _with(found, place, replace(entry, seq=item.seq))
    return found


def _shows(entry: Entry, item: Item, when: Span) -> bool:
    if (entry.payload, entry.attempts) != (item.payload, item.attempts):
        return False
    if entry.reason is not None or item.state == "quarantined":
        return item.state == "quarantined" and item.reason == entry.reason
    if item.state == "available":
        return entry.may_be_claimed(when)
    held = not entry.can_be_claimed(when) and entry.free[0] <= item.until_ms <= entry.free[1]
    return held and entry.claimed == (item.state == "leased")


# --- whole histories --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """The first call that no state explains, and the states that were possible before."""

    did: Did
    before: frozenset[State]

    def __str__(self) -> str:
        state = min(self.before, key=lambda it: (len(it.entries), repr(it)))
        held = ", ".join(map(shown, state.entries)) or "nothing"
        also = f" (or {len(self.before) - 1} other states)" if len(self.before) > 1 else ""
        return f"{self.did.operation} -> {short(self.did.result)} cannot follow from {held}{also}"


def shown(entry: Entry) -> str:
    """An entry for people."""
    number = "without a known number" if entry.seq is None else str(entry.seq)
    state = "leased" if entry.claimed else "waiting"
    state = state if entry.reason is None else f"quarantined for {short(entry.reason, 40)}"
    return f"item {number} ({state}, claimed {entry.attempts} times)"


def outcomes(
    history: Iterable[Did], rules: Rules, initial: Iterable[State] = (State(),)
) -> frozenset[State] | Violation:
    """The states in which the history can have left the queue, or why it cannot have happened."""
    states = frozenset(initial)
    for did in history:
        after = frozenset(it for state in states for it in steps(state, did, rules))
        if not after:
            return Violation(did, states)
        states = after
    return states
