"""Calls on a delivery queue that suit a trace: few items, few numbers, few generations.

The spec counts records per segment, all of one length. With these limits and at most two items at a
time a segment takes `ROOM` records of any kind and never one more. What Delivery.tla says nothing
of, admission, is left out (`delivery_worker.Queue`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from lychgate._delivery_codec import State
from lychgate._delivery_layout import Limits
from lychgate._fs import Facts
from lychgate._op import Program

from lychgate_tools.walk.delivery_cells import payload_of, segment_bytes
from lychgate_tools.walk.delivery_worker import Queue

ROOM = 2
SEGMENTS = 2
CONSTANTS = {"Room": ROOM, "SegMax": SEGMENTS}
_LIVE_MAX = 2
_NUMBERS_MAX = 6
_GENERATIONS_MAX = 6


def new_queue(directory: str, facts: Facts) -> Queue:
    return Queue(directory, Limits(9, 8, segment_bytes(ROOM), SEGMENTS), facts)


def program(queue: Queue, op: str, record: str) -> Program[Any]:
    """A call; `deliver` claims the oldest item and says `record` of it: acked, retried, or why it
    is set aside."""
    programs: dict[str, Callable[[], Program[Any]]] = {
        "open": queue.open,
        "recover": queue.recover,
        "close": queue.close,
        "enqueue": lambda: _enqueue(queue),
        "deliver": lambda: _deliver(queue, record),
    }
    return programs[op]()


async def _enqueue(queue: Queue) -> None:
    ledger = queue._ledger
    if not _is_spent(queue) and len(ledger.items) < _LIVE_MAX and ledger.high < _NUMBERS_MAX:
        await queue.enqueue(payload_of(ledger.high + 1))


async def _deliver(queue: Queue, what: str) -> None:
    if _is_spent(queue):
        return
    claim = (await queue.claim(60_000)).claim
    if claim is None:
        return
    await queue.read(claim.sequence)
    aside = any(item.state is State.QUARANTINED for item in queue._ledger.items.values())
    if what == "later":
        return
    if what == "p":
        await queue.retry(claim.sequence, 0, claim.receipt)
    elif what == "-" or aside:
        await queue.ack(claim.sequence, claim.receipt)
    else:
        await queue.quarantine(claim.sequence, what, claim.receipt)


def _is_spent(queue: Queue) -> bool:
    return queue._log.generation >= _GENERATIONS_MAX


class DeliveryCaller:
    """Enqueues, and delivers with one end or another."""

    def __init__(self, chance: Random, name: str) -> None:
        self._chance = chance

    def next(self) -> tuple[str, str]:
        op = self._chance.choice(("enqueue", "deliver", "deliver"))
        return op, self._chance.choice("--ppxy") if op == "deliver" else ""

    def ended(self, op: str, record: str, outcome: str) -> None:
        pass
