"""The oracle of the delivery queue: what it allows, and what it does not."""

from __future__ import annotations

import pytest

from lychgate_conformance._oracle import Fate
from lychgate_conformance._queue import Claimed, Item
from lychgate_conformance._queue_oracle import (
    Claim,
    Did,
    Enqueue,
    Finish,
    Look,
    Operation,
    Rules,
    State,
    Violation,
    outcomes,
)

RULES = Rules()
NOW = 1_000


def did(operation: Operation, result: object, now: int = NOW) -> Did:
    return Did(operation, (now, now), Fate.RETURNED, result)


def maybe(operation: Operation, now: int = NOW) -> Did:
    return Did(operation, (now, now), Fate.MAYBE)


def claimed(seq: int, receipt: int | None = 1, until: int = NOW + 50) -> Claimed:
    return Claimed(seq, b"p%d" % seq, receipt, until)


def item(
    seq: int, state: str = "available", attempts: int = 0, until: int = 0, reason: str | None = None
) -> Item:
    return Item(seq, state, attempts, until, reason, b"p%d" % seq)


def put(seq: int) -> Did:
    return did(Enqueue(b"p%d" % seq), seq)


LOOK, TAKE = Look(), Claim(50)
ACK, BURY = Finish("ack", 1, 1), Finish("quarantine", 1, 1, reason="no")
RETRY = Finish("retry", 1, 1, delay_ms=30)
TAKEN = [put(1), put(2), did(TAKE, claimed(1))]
LATE = Did(TAKE, (NOW + 50, NOW + 50), Fate.RETURNED, claimed(1, 2, NOW + 100))

GOOD: dict[str, list[Did]] = {
    "a claim": [*TAKEN, did(LOOK, (item(1, "leased", 1, NOW + 50), item(2)))],
    "an ack": [*TAKEN, did(ACK, "OK"), did(ACK, "ALREADY_DONE"), did(LOOK, (item(2),))],
    "a delay": [
        *TAKEN,
        did(RETRY, "OK"),
        did(LOOK, (item(1, "delayed", 1, NOW + 30), item(2))),
        did(LOOK, (item(1, "available", 1, NOW + 30), item(2)), NOW + 30),
    ],
    "a quarantine": [
        *TAKEN,
        did(BURY, "OK"),
        did(BURY, "ALREADY_DONE"),
        did(LOOK, (item(1, "quarantined", 1, 0, "no"), item(2)), NOW + 999),
    ],
    "a lease that ran out": [*TAKEN, LATE, did(ACK, "CLAIM_LOST", NOW + 60)],
    "a late end": [*TAKEN, did(ACK, "OK", NOW + 999)],
    "a refusal": [put(1), did(Enqueue(b"x"), "FULL"), did(LOOK, (item(1),))],
    "an unknown item": [put(1), did(Finish("ack", 7, None), "NOT_FOUND")],
    "a gap in the numbers": [put(1), put(5)],
    "an enqueue that happened": [maybe(Enqueue(b"p4")), did(LOOK, (item(4),)), put(5)],
    "an enqueue that did not": [maybe(Enqueue(b"p4")), did(LOOK, ()), put(4)],
    "an ack that happened": [*TAKEN, maybe(ACK), did(LOOK, (item(2),))],
    "an ack that did not": [
        *TAKEN, maybe(ACK), did(LOOK, (item(1, "leased", 1, NOW + 50), item(2))),
    ],
    "a claim that nobody heard of": [
        put(1), maybe(TAKE), did(LOOK, (item(1, "leased", 1, NOW + 50),)),
    ],
    "nothing to claim": [put(1), did(TAKE, claimed(1)), did(TAKE, None)],
}  # fmt: skip

BAD: dict[str, list[Did]] = {
    "a lost item": [put(1), did(LOOK, ())],
    "a number twice": [put(1), put(1)],
    "a lower number": [put(2), put(1)],
    "a number of an acked item": [put(1), did(TAKE, claimed(1)), did(ACK, "OK"), put(1)],
    "another order": [put(1), put(2), did(TAKE, claimed(2))],
    "a claim within a lease": [*TAKEN, did(TAKE, claimed(1, 2))],
    "a claim of nothing": [did(TAKE, claimed(1))],
    "nothing, and there is an item": [put(1), did(TAKE, None)],
    "a lease that is too long": [put(1), did(TAKE, claimed(1, 1, NOW + 51))],
    "an old receipt": [*TAKEN, LATE, did(ACK, "OK", NOW + 60)],
    "an ack that came undone": [*TAKEN, did(ACK, "OK"), did(LOOK, (item(1), item(2)))],
    "a second reason": [
        *TAKEN, did(BURY, "OK"), did(LOOK, (item(1, "quarantined", 1, 0, "yes"), item(2))),
    ],
    "attempts that are lost": [*TAKEN, did(LOOK, (item(1, "leased", 0, NOW + 50), item(2)))],
    "another end of a lease": [*TAKEN, did(LOOK, (item(1, "leased", 1, NOW + 51), item(2)))],
    "a lease that expired early": [*TAKEN, did(LOOK, (item(1, "available", 1), item(2)))],
    "an item that comes back": [
        maybe(Enqueue(b"p4")), did(LOOK, ()), did(LOOK, (item(4),)),
    ],
    "another payload": [put(1), did(LOOK, (item(2),))],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_may_be_seen(name: str) -> None:
    """L1, L4, L5, L6, L7, L8."""
    found = outcomes(GOOD[name], RULES)
    assert not isinstance(found, Violation), str(found)


@pytest.mark.parametrize("name", BAD)
def test_what_may_not_be_seen(name: str) -> None:
    """L1, L4, L5, L7, L8: the last call is the one that is named."""
    found = outcomes(BAD[name], RULES)
    assert isinstance(found, Violation) and found.did == BAD[name][-1]
    assert "cannot follow from" in str(found)


def test_claims_weaken_the_rules() -> None:
    """Without an order any item may be claimed; without receipts an old one is as good."""
    any_order = Rules(in_order=False, receipts=False)
    for name in ("another order", "an old receipt"):
        assert not isinstance(outcomes(BAD[name], any_order), Violation)


def test_times_that_are_not_known_allow_both() -> None:
    """L5: where a lease may have run out, the item may be claimed or not."""
    about = (NOW + 40, NOW + 60)
    for result in (None, claimed(1, 2, NOW + 95)):
        history = [put(1), did(TAKE, claimed(1)), Did(TAKE, about, Fate.RETURNED, result)]
        assert not isinstance(outcomes(history, RULES), Violation)


def test_states_stay_few() -> None:
    """Each look settles what nobody had an answer of."""
    history: list[Did] = []
    for n in range(1, 9):
        history += [maybe(Enqueue(b"p%d" % n)), did(LOOK, tuple(map(item, range(1, n + 1))))]
    found = outcomes(history, RULES)
    assert isinstance(found, frozenset) and len(found) == 1
    assert all(isinstance(it, State) and it.high == 8 for it in found)
