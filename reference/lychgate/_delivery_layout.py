"""The arithmetic of room and of leases: pure functions (spec/DeliverySpace.tla, DeliverySpec.tla).

Room. A log is a `Fill`: how many segments, and the bytes in the last one. Records are never split,
so a segment's end may stay empty. The rule of admission (L9): were every item quarantined for the
longest reason and the queue compacted, then one more control record must fit. It suffices, because
next fit never takes more segments for smaller or fewer records. Each item is counted with the bytes
of one claim besides: not for safety, but so that a full queue need not compact at every claim.

Leases. One that ends at `until` and is `length` long holds while until - 2·length <= now < until.
Without the lower bound a clock that was set back would hold an item for as long as it was wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lychgate._delivery_codec import (
    CLAIM_BYTES,
    ITEM_BYTES,
    OVERHEAD_BYTES,
    REASON_BYTES_MAX,
    U64_MAX,
)
from lychgate._errors import ConfigError

SPAN_MS_MAX = 100 * 366 * 24 * 3600 * 1000
"""The longest lease or delay, in milliseconds: a hundred years."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue may hold (L6). Sizes are bytes."""

    items_max: int = 10_000
    payload_bytes_max: int = 64 * 1024
    segment_bytes: int = 8 * 1024 * 1024
    segments_max: int = 16

    def check(self) -> None:
        """Raises ConfigError for values that cannot be meant. A queue too small for any item is
        not an error: it answers FULL."""
        for name, top in (
            ("items_max", 2**31),
            ("payload_bytes_max", 2**30),
            ("segment_bytes", 2**31 - 1),
            ("segments_max", 2**31),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
                raise ConfigError(f"{name} must be a whole number from 1 to {top:,}")

    @property
    def reason_bytes_max(self) -> int:
        """The longest reason of a quarantine (L8)."""
        return min(REASON_BYTES_MAX, self.payload_bytes_max)

    @property
    def control_bytes_max(self) -> int:
        """The longest record that is no item."""
        return max(CLAIM_BYTES, OVERHEAD_BYTES + self.reason_bytes_max)

    @property
    def disk_bytes_max(self) -> int:
        """Log bytes that may ever stand on the disk; two manifests come on top (L12)."""
        return 2 * self.segments_max * self.segment_bytes


class Fill(NamedTuple):
    """How full a log is."""

    segments: int
    last: int


EMPTY = Fill(0, 0)


def put(limits: Limits, fill: Fill, size: int) -> Fill:
    """The log with one more record; more segments than there may be when it does not fit.

    pre: size >= 1 and fill.segments >= 0 and fill.last >= 0
    pre: limits.segments_max + 1 >= fill.segments and limits.segment_bytes >= 1
    post: __return__.segments >= fill.segments
    """
    if size > limits.segment_bytes or fill.segments > limits.segments_max:
        return Fill(limits.segments_max + 1, 0)
    if fill.segments and fill.last + size <= limits.segment_bytes:
        return Fill(fill.segments, fill.last + size)
    return Fill(fill.segments + 1, size)


def fits(limits: Limits, fill: Fill) -> bool:
    return fill.segments <= limits.segments_max


def pack(limits: Limits, sizes: Iterable[int], fill: Fill = EMPTY) -> Fill:
    """The log with records of these sizes, next fit."""
    for size in sizes:
        fill = put(limits, fill, size)
    return fill


def item_size(payload: int, reason: int) -> int:
    """Bytes of an item's record."""
    return ITEM_BYTES + payload + reason


def worst_size(limits: Limits, payload: int, reason: int, quarantined: bool) -> int:
    """What admission counts for an item."""
    if quarantined:
        return item_size(payload, reason)
    return item_size(payload, limits.reason_bytes_max) + CLAIM_BYTES


def admits(limits: Limits, worst: Fill) -> bool:
    """Whether a packed worst case leaves room for any control record (L9)."""
    return fits(limits, worst) and fits(limits, put(limits, worst, limits.control_bytes_max))


# --- leases -----------------------------------------------------------------------------------


def ends_at(now_ms: int, length_ms: int) -> int:
    """When a lease or delay that begins now ends.

    pre: 0 <= now_ms and 0 <= length_ms
    post: 0 <= __return__ <= 2**64 - 1
    """
    return min(now_ms + length_ms, U64_MAX)


def holds(until_ms: int, length_ms: int, now_ms: int) -> bool:
    """Whether a lease or delay keeps its item at `now_ms`.

    post: not __return__ or 0 < until_ms - now_ms <= 2 * length_ms
    """
    return until_ms - 2 * length_ms <= now_ms < until_ms
