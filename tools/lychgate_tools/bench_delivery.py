"""The delivery queue beside bare calls on the same bytes (bench `delivery`).

    enqueue      beside write and fsync of as many bytes
    recovery     `size` records read and judged after a clean end, beside reading the files
    peak memory  of that, beside opening a queue with the same items and nothing else in its log
    compaction   all items into a new generation, beside copying their bytes and an fsync

Both sides handle the same bytes, so each ratio is one per byte as well. The big log is that of a
queue that was in use: its items were claimed and acked, but for the last ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lychgate import DeliveryQueue
from lychgate._delivery_codec import (
    FORMAT_MARKER,
    ItemBody,
    Kind,
    Manifest,
    Place,
    State,
    claim_body,
    encode,
    encode_manifest,
    item_body,
)
from lychgate._delivery_files import FORMAT, LOCK, MANIFEST, parse_segment_name, segment_name
from lychgate._delivery_layout import Limits
from lychgate._lock import clean_mark
from lychgate._osfs import OsFs
from lychgate_tools.bench_child import SEGMENTS_MAX
from lychgate_tools.bench_measure import Result, Side, compare, in_child, timed
from lychgate_tools.bench_store import Plan, scratch, small_result

PAYLOAD = b"x" * 100
_CHUNK_BYTES = 1024 * 1024
_ROUNDS = 3
_WAITING = 1000
_GOAL = 1.2  # the design's: enqueue within so many times write and fsync


def delivery(plan: Plan) -> list[Result]:
    with scratch(plan, "delivery") as base:
        return [_enqueue(plan, base), *_recovery(plan, base), _compaction(plan, base)]


# --- enqueue ----------------------------------------------------------------------------------


def _enqueue(plan: Plan, base: Path) -> Result:
    plan.note("enqueue")
    record = encode(Kind.ITEM, 1, 1, _body(), Place(1, 1, 0))
    fd = os.open(base / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)

    def bare() -> None:
        os.write(fd, record)
        os.fsync(fd)

    calls = plan.rounds * plan.each
    try:
        with DeliveryQueue(base / "small", items_max=max(calls, 1)) as queue:
            found = compare(
                timed(lambda: queue.enqueue(PAYLOAD)), timed(bare), plan.rounds, plan.each
            )
    finally:
        os.close(fd)
    return small_result("delivery", "enqueue", "write, fsync", found, _GOAL)


def _body() -> bytes:
    return item_body(ItemBody(State.PENDING, 0, 0, 0, b"", PAYLOAD))


# --- recovery and compaction ------------------------------------------------------------------


def write_queue(directory: Path, waiting: int, done: int = 0) -> Path:
    """A queue that ended cleanly: items that were claimed and acked, then some that wait."""
    directory.mkdir()
    number, data = 1, bytearray()
    for event, (kind, sequence, body) in enumerate(_history(waiting, done), start=1):
        record = encode(kind, sequence, event, body, Place(0, number, len(data)))
        if len(data) + len(record) > Limits().segment_bytes:
            (directory / segment_name(0, number)).write_bytes(data)
            number, data = number + 1, bytearray()
            record = encode(kind, sequence, event, body, Place(0, number, 0))
        data += record
    (directory / segment_name(0, number)).write_bytes(data)
    (directory / FORMAT).write_bytes(FORMAT_MARKER)
    (directory / MANIFEST).write_bytes(encode_manifest(Manifest(0, 0, 0, 0)))
    (directory / LOCK).write_bytes(clean_mark(OsFs().boot()))
    return directory


def _history(waiting: int, done: int) -> Iterator[tuple[Kind, int, bytes]]:
    for sequence in range(1, done + 1):
        yield Kind.ITEM, sequence, _body()
        yield Kind.CLAIM, sequence, claim_body(1, 0, 0)
        yield Kind.ACK, sequence, b""
    for sequence in range(done + 1, done + waiting + 1):
        yield Kind.ITEM, sequence, _body()


def _segments(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.iterdir()) if parse_segment_name(path.name)]


def _recovery(plan: Plan, base: Path) -> list[Result]:
    waiting = min(_WAITING, plan.size)
    records = f"{plan.size:,} records"
    plan.note(f"recovery of {records}")
    big = write_queue(base / "big", waiting, (plan.size - waiting) // 3)
    few = write_queue(base / "few", waiting)
    paths = _segments(big)
    amount = f"{sum(path.stat().st_size for path in paths) / 1e6:.0f} MB"

    def read() -> None:
        for path in paths:
            with open(path, "rb", buffering=0) as file:
                while file.read(_CHUNK_BYTES):
                    pass

    found = compare(timed(lambda: open_queue(big).close()), timed(read), _ROUNDS)
    plan.note("peak memory of a recovery")
    peak, least = (in_child("open-delivery", str(queue)).peak_bytes for queue in (big, few))
    return [
        small_result("delivery", f"recovery, {records}, {amount}", "reading the files", found),
        Result(
            "delivery", f"peak memory of it, {records}", peak, f"the same {waiting:,} items alone",
            least, peak / least, "bytes",
            note=f"{(peak - least) / 1e6:.1f} MB more; a segment, which is read as a whole, "
            f"has {Limits().segment_bytes / 1e6:.1f} MB at most",
        ),
    ]  # fmt: skip


def open_queue(path: Path) -> DeliveryQueue:
    return DeliveryQueue(path, segments_max=SEGMENTS_MAX)


def _compaction(plan: Plan, base: Path) -> Result:
    count = min(plan.size, Limits().items_max)
    plan.note(f"compaction of {count:,} items")
    (source,) = _segments(write_queue(base / "full", count))
    with open_queue(base / "full") as queue:
        programs = queue._programs
        compacts = timed(lambda: queue._run(programs._in_turn(programs._compact)))
        copies = _copier(source.read_bytes(), base / "copy")
        found = compare(compacts, copies, _ROUNDS)
    amount = f"{count:,} items"
    return small_result("delivery", f"compaction, {amount}", "reading, writing, fsync", found)


def _copier(data: bytes, path: Path) -> Side:
    """Reading a file of these bytes, and writing them to a new one."""
    source = path.with_suffix(".old")
    source.write_bytes(data)

    def copy() -> None:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(source, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                os.write(target, chunk)
        os.fsync(target)
        os.close(target)
        path.unlink()

    return timed(copy)
