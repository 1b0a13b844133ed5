"""What the records of a generation amount to: the items, in the order of their numbers. No I/O.

Only `apply` changes the ledger, at replay and after a change is durable alike, so that what a
recovery finds is what the instance had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from lychgate._delivery_codec import (
    OVERHEAD_BYTES,
    Bad,
    ItemBody,
    Kind,
    Place,
    Record,
    State,
    parse_claim,
    parse_item,
    parse_retry,
)
from lychgate._delivery_layout import Limits, holds, item_size, worst_size


_STALE_MAX = 1000


@dataclass(slots=True)
class Item:
    """One item. Its payload stays on the disk, in the record at `place`."""

    sequence: int
    state: State
    attempts: int
    until_ms: int
    length_ms: int
    reason: bytes
    place: Place
    record_bytes: int
    payload_bytes: int

    @property
    def size(self) -> int:
        """Bytes of its record in a snapshot."""
        return item_size(self.payload_bytes, len(self.reason))

    def worst(self, limits: Limits) -> int:
        quarantined = self.state is State.QUARANTINED
        return worst_size(limits, self.payload_bytes, len(self.reason), quarantined)

    def available(self, now_ms: int) -> bool:
        """Whether it can be claimed."""
        if self.state is State.QUARANTINED:
            return False
        return not holds(self.until_ms, self.length_ms, now_ms)


class Ledger:
    """The items of a queue, and the highest number that was ever given."""

    def __init__(self, high: int = 0) -> None:
        self.items: dict[int, Item] = {}
        self.high = high
        self.events = 0
        self._ready: list[int] = []  # heaps; an entry counts only if the item agrees
        self._timed: list[tuple[int, int]] = []
        self._latest_ms = 0  # the latest time that was seen: here, or when a lease or delay began

    # --- applying records ---------------------------------------------------------------------

    def apply(self, record: Record) -> Bad | None:
        """Take one record over; what is wrong with it if it cannot follow the ones before."""
        wrong = self._apply(record)
        if wrong:
            return Bad(record.place.offset, wrong)
        self.events = record.event
        return None

    def _apply(self, record: Record) -> str:
        if record.event != self.events + 1:
            return f"event {record.event} where event {self.events + 1} belongs"
        if record.kind is Kind.ITEM:
            return self._add(record)
        item = self.items.get(record.sequence)
        if item is None or item.state is State.QUARANTINED:
            return f"an event about item {record.sequence}, which is not there to change"
        if record.kind is Kind.CLAIM:
            return self._claim(item, record.body)
        if item.state is not State.CLAIMED:
            return f"an event about item {record.sequence}, which is not claimed"
        if record.kind is Kind.RETRY:
            return self._retry(item, record.body)
        if record.kind is Kind.QUARANTINE:
            item.state, item.reason = State.QUARANTINED, record.body
            return ""
        assert record.kind is Kind.ACK
        if record.body:
            return "an ack with a body"
        del self.items[item.sequence]
        return ""

    def _add(self, record: Record) -> str:
        body = parse_item(record.body)
        last = next(reversed(self.items), 0)
        if body is None:
            return "an item whose body makes no sense"
        if record.sequence <= last or not record.sequence:
            return f"item {record.sequence} behind item {last}"
        item = _item(record, body)
        self.items[item.sequence] = item
        self.high = max(self.high, item.sequence)
        self._wake(item)
        return ""

    def _claim(self, item: Item, body: bytes) -> str:
        claim = parse_claim(body)
        if claim is None or claim[0] != item.attempts + 1:
            return f"a claim of item {item.sequence} that does not follow its last one"
        item.attempts, item.until_ms, item.length_ms = claim
        item.state = State.CLAIMED
        self._wake(item)
        return ""

    def _retry(self, item: Item, body: bytes) -> str:
        retry = parse_retry(body)
        if retry is None:
            return "a retry whose body makes no sense"
        item.until_ms, item.length_ms = retry
        item.state = State.PENDING
        self._wake(item)
        return ""

    def moved(self, moves: list[tuple[int, Place, int]]) -> None:
        """A new generation is selected: where each item's record stands in it, and its size."""
        for sequence, place, size in moves:
            item = self.items[sequence]
            item.place, item.record_bytes = place, size
        self.events = len(moves)

    # --- choosing -----------------------------------------------------------------------------

    def _wake(self, item: Item) -> None:
        heappush(self._timed, (item.until_ms, item.sequence))
        self._latest_ms = max(self._latest_ms, item.until_ms - item.length_ms)
        if len(self._timed) + len(self._ready) > 4 * len(self.items) + _STALE_MAX:
            self._sort_anew()

    def _sort_anew(self) -> None:
        """Without the entries that no longer count: memory depends on the items, not on what
        became of them (L14)."""
        self._timed = [(item.until_ms, item.sequence) for item in self.items.values()]
        heapify(self._timed)
        self._ready = []
        begins = (item.until_ms - item.length_ms for item in self.items.values())
        self._latest_ms = max(begins, default=0)

    def choose(self, now_ms: int) -> Item | None:
        """The item with the lowest number among those that can be claimed."""
        if now_ms < self._latest_ms:  # the clock was set back: what holds must be looked at anew
            self._sort_anew()
            self._ready = [s for s, item in self.items.items() if item.available(now_ms)]
        self._latest_ms = now_ms
        while self._timed and self._timed[0][0] <= now_ms:
            heappush(self._ready, heappop(self._timed)[1])
        while self._ready:
            item = self.items.get(self._ready[0])
            if item is not None and item.available(now_ms):
                return item
            heappop(self._ready)  # stale: whatever changed the item has noted when to look again
        return None

    # --- numbers ------------------------------------------------------------------------------

    def sizes(self) -> Iterator[int]:
        """Bytes of each item's record in a snapshot, in order."""
        return (item.size for item in self.items.values())

    def counts(self, now_ms: int) -> dict[str, int]:
        """How many items stand where."""
        found: Counter[str] = Counter(items=len(self.items))
        for item in self.items.values():
            if item.state is State.QUARANTINED:
                found["items_quarantined"] += 1
            elif item.available(now_ms):
                found["items_available"] += 1
            elif item.state is State.CLAIMED:
                found["items_leased"] += 1
            else:
                found["items_delayed"] += 1
        return dict(found)


def _item(record: Record, body: ItemBody) -> Item:
    return Item(
        record.sequence,
        body.state,
        body.attempts,
        body.until_ms,
        body.length_ms,
        body.reason,
        record.place,
        record.size,
        len(body.payload),
    )


def control_size(body: int) -> int:
    """Bytes of a record that is no item."""
    return OVERHEAD_BYTES + body
