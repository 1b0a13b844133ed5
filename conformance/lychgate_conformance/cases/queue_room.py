"""Level 0 of the delivery profile: limits, room that is reserved, room that comes back."""

from __future__ import annotations

from typing import Any

from lychgate_conformance._check import expect, expect_equal, refused
from lychgate_conformance._queue import Queue
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases._queues import again, bytes_below, only, queue_case, standing

SMALL: dict[str, Any] = {
    "items_max": 40,
    "payload_bytes_max": 200,
    "segment_bytes": 1_500,
    "segments_max": 3,
}
"""Limits under which a few dozen calls are a lot."""
MANIFESTS_BYTES = 2 * 48
REASON_BYTES_MAX = 4096


@queue_case("L0-QROOM-001", "over the limit of items an enqueue is refused", "L6", needs="limits")
def too_many(stage: Stage) -> None:
    queue = stage.open_queue(items_max=3)
    seqs = [queue.put(b"%d" % n) for n in range(3)]
    expect_equal("the fourth", queue.enqueue(b"fourth"), "FULL")
    expect_equal("the items", [it.seq for it in queue.items()], seqs)
    claimed = queue.take()
    queue.ack(claimed.seq, claimed.receipt)
    seq = queue.put(b"fifth")
    expect(seq > max(seqs), f"the next item has the number {seq}")
    if stage.claims.dense_numbers:
        expect_equal("the next number: a refusal uses none", seq, max(seqs) + 1)


@queue_case("L0-QROOM-002", "a payload over its limit is refused, and takes no room", "L6",
            needs="limits")  # fmt: skip
def too_large(stage: Stage) -> None:
    queue = stage.open_queue(payload_bytes_max=100)
    first = queue.put(b"x" * 100)
    expect_equal("101 bytes", queue.enqueue(b"x" * 101), "TOO_LARGE")
    expect_equal("the item", only(queue).seq, first)
    second = queue.put(b"y")
    if stage.claims.dense_numbers:
        expect_equal("the next number: a refusal uses none", second, first + 1)


@queue_case("L0-QROOM-003", "a reason over its budget is cut, not refused", "L8", needs="limits")
def long_reason(stage: Stage) -> None:
    queue = stage.open_queue(payload_bytes_max=100)
    for text in ("r" * 500, "é" * 99):
        queue.put(b"x")
        claimed = queue.take()
        expect_equal("quarantine", queue.quarantine(claimed.seq, text, claimed.receipt), "OK")
        kept = queue.items()[-1].reason or ""
        expect(text.startswith(kept), "the reason kept is not the beginning of the one given")
        size = len(kept.encode())
        expect(98 <= size <= 100, f"{size} bytes of the reason are kept; the budget is 100")
    queue = stage.open_queue(stage.root / "large", payload_bytes_max=10_000)
    queue.put(b"x")
    claimed = queue.take()
    queue.quarantine(claimed.seq, "r" * 9_000, claimed.receipt)
    expect_equal("bytes kept of 9000", len(only(queue).reason or ""), REASON_BYTES_MAX)


@queue_case(
    "L0-QROOM-004", "what is acked does not stay in its files for ever", "L7",
    needs="reclaims_space, uses_path",
)  # fmt: skip
def acked_is_reclaimed(stage: Stage) -> None:
    limits = SMALL if stage.claims.limits else {}
    queue = stage.open_queue(**limits)
    kept = queue.put(b"kept")
    first = queue.take()
    queue.quarantine(first.seq, "kept", first.receipt)
    for _ in range(150):
        queue.put(bytes(200))
        claimed = queue.take()
        expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
    expect_equal("what is left", only(queue).seq, kept)
    size = bytes_below(stage.path)
    expect(size < 40_000, f"one item is left, and {size} bytes of its files")


@queue_case(
    "L0-QROOM-005", "the history of retries does not stay in its files for ever", "L7",
    needs="reclaims_space, uses_path",
)  # fmt: skip
def retries_are_reclaimed(stage: Stage) -> None:
    limits = SMALL if stage.claims.limits else {}
    queue = stage.open_queue(**limits)
    queue.put(b"other")
    queue.put(bytes(150))
    claimed = queue.take()
    for _ in range(250):
        claimed = again(queue, claimed)
    expect_equal("attempts", queue.items()[0].attempts, 251)
    size = bytes_below(stage.path)
    expect(size < 40_000, f"two items are there, and {size} bytes of its files")


def fill(queue: Queue, size: int) -> list[int]:
    """Enqueue until it is full."""
    seqs: list[int] = []
    while isinstance(seq := queue.enqueue(bytes(size)), int) and len(seqs) < 1000:
        seqs.append(seq)
    expect_equal("what ended the filling", seq, "FULL")
    return seqs


@queue_case(
    "L0-QROOM-006", "every item that was accepted can reach its end, in a full queue too", "L9",
    needs="limits",
)  # fmt: skip
def ends_have_room(stage: Stage) -> None:
    for size in (1, 60, 200):
        queue = stage.open_queue(stage.root / str(size), **SMALL)
        seqs = fill(queue, size)
        for seq in seqs:
            claimed = queue.take()
            for _ in range(3):
                claimed = again(queue, claimed)
            said = queue.quarantine(claimed.seq, "r" * 200, claimed.receipt)
            expect_equal(f"quarantine of item {seq}", said, "OK")
        kept = [(it.state, it.reason) for it in queue.items()]
        expect(kept == [("quarantined", "r" * 200)] * len(seqs), "a reason or an item is lost")
        queue.close()


@queue_case("L0-QROOM-007", "its log files keep within their bound", "L12", "disk_bound, uses_path")
def disk_bound(stage: Stage) -> None:
    queue = stage.open_queue(**SMALL)
    bound = 2 * SMALL["segments_max"] * SMALL["segment_bytes"] + MANIFESTS_BYTES
    for n in range(300):
        queue.enqueue(bytes(n % 200))
        claimed = queue.claim()
        if claimed is not None:
            end = n % 7
            if end == 0:
                queue.quarantine(claimed.seq, "r" * (n % 200), claimed.receipt)
            elif end < 4:
                queue.ack(claimed.seq, claimed.receipt)
            else:
                queue.retry(claimed.seq, claimed.receipt)
        size = sum(it.stat().st_size for it in stage.path.rglob("*") if _is_log(it.name))
        expect(size <= bound, f"{size} bytes of log and manifests; the bound is {bound}")


def _is_log(name: str) -> bool:
    return "segment" in name or "manifest" in name


@queue_case("L0-QROOM-008", "a full queue keeps what it holds, and goes on", "L6, L9", "limits")
def goes_on(stage: Stage) -> None:
    queue = stage.open_queue(**SMALL)
    seqs = fill(queue, 100)
    before = standing(queue)
    expect_equal("an enqueue", queue.enqueue(bytes(100)), "FULL")
    expect(standing(queue) == before, "a refused enqueue has changed the queue")
    for seq in seqs:
        claimed = queue.take()
        expect_equal(f"ack of item {seq}", queue.ack(claimed.seq, claimed.receipt), "OK")
    expect_equal("items", queue.items(), [])
    expect(queue.put(bytes(100)) > max(seqs), "a number is given a second time")


@queue_case(
    "L0-QROOM-009", "limits that are too small for what is there are refused", "L12", needs="limits"
)
def smaller_limits(stage: Stage) -> None:
    queue = stage.open_queue(**SMALL)
    seqs = fill(queue, 100)
    before = standing(queue)
    queue.close()
    less = {**SMALL, "segments_max": 1, "segment_bytes": 400}
    error = refused(lambda: stage.open_queue(**less))
    expect(error is not None, f"{len(seqs)} items were opened under limits that cannot hold them")
    expect(error is not None and error.definite is not False, f"the refusal: {error}")
    expect(standing(stage.open_queue(**SMALL)) == before, "the refused opening changed the queue")
