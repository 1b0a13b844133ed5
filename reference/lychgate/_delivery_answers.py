"""What the queue answers, and the decisions behind the answers. Plain functions and values.

An item is enqueued, claimed with a lease, and then acked, retried or quarantined (L1).
"""

from __future__ import annotations

from dataclasses import dataclass

from lychgate._delivery_codec import State
from lychgate._delivery_errors import Result
from lychgate._delivery_layout import SPAN_MS_MAX
from lychgate._delivery_ledger import Item
from lychgate._errors import Refused


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease on an item. `receipt` is new with every claim: show it, and a late answer is told
    from the one that counts. `until_ms` is wall-clock time, milliseconds since the epoch."""

    sequence: int
    receipt: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Enqueued:
    """OK with the item's number; FULL or TOO_LARGE without one."""

    result: Result
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """OK with the claim, or EMPTY."""

    result: Result
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Payload:
    """OK with the payload, or NOT_FOUND, or ALREADY_DONE for an item that was acked."""

    result: Result
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item as it stands: `state` is available, leased, delayed or quarantined."""

    sequence: int
    state: str
    attempts: int
    until_ms: int
    reason: str
    payload_bytes: int


def verdict(item: Item | None, sequence: int, high: int, receipt: int | None) -> Result:
    """Whether a consumer may say something of an item. Without a receipt the first consumer may
    still finish after its lease ran out; with one, a late consumer is told (L5)."""
    if item is None:
        return Result.ALREADY_DONE if 0 < sequence <= high else Result.NOT_FOUND
    if item.state is State.QUARANTINED:
        return Result.ALREADY_DONE
    if receipt is not None and receipt != item.attempts:
        return Result.CLAIM_LOST
    return Result.OK if item.state is State.CLAIMED else Result.NOT_CLAIMED


def cut_reason(reason: str | bytes, size: int) -> bytes:
    """A reason within its budget, never cut inside a character (L8)."""
    if isinstance(reason, bytes):
        return reason[:size]
    if not isinstance(reason, str):
        raise Refused("a reason is text or bytes")
    data = reason.encode("utf-8", "surrogatepass")
    while size < len(data) and size > 0 and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def view(item: Item, now_ms: int) -> ItemView:
    """The item as a caller sees it."""
    if item.state is State.QUARANTINED:
        state = "quarantined"
    elif item.available(now_ms):
        state = "available"
    else:
        state = "leased" if item.state is State.CLAIMED else "delayed"
    reason = item.reason.decode("utf-8", "replace")
    return ItemView(
        item.sequence, state, item.attempts, item.until_ms, reason, item.payload_bytes
    )


def span(name: str, value: int, least: int) -> int:
    """A lease or delay in milliseconds. Raises Refused for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= SPAN_MS_MAX:
        raise Refused(f"{name} must be whole milliseconds from {least} to {SPAN_MS_MAX:,}")
    return value


def number(sequence: int) -> int:
    """A sequence number. Raises Refused for anything else."""
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise Refused("sequence must be the number that enqueue gave")
    return sequence


