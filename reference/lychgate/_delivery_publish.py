"""Publishing a generation: compaction, and what every open does that does not follow a clean end.

    UnlinkSegment* FsyncQueueDir                              nothing else stands beside the log
    (CreateSegment CopyItems* FsyncSegment)* FsyncQueueDir    the copy and its names are durable
    CreateMeta WriteMeta FsyncMeta RenameMeta FsyncQueueDir   it is selected, for good
    UnlinkSegment*                                            the old one goes

Rules of this file (spec/Delivery.tla)
  * The names of the new segments are durable before the rename: a crash may keep the rename and
    lose them. L10 asks only for the sync after it.
  * What was unlinked is durably gone before a new byte is written, else three generations could be
    on the disk at once (L12).
  * An item is copied only if its record is still valid where it was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lychgate._delivery_codec import (
    ItemBody,
    Kind,
    Manifest,
    Place,
    encode,
    encode_manifest,
    item_body,
)
from lychgate._delivery_files import (
    BATCH_BYTES,
    MANIFEST,
    Log,
    Segment,
    close_segment,
    replace_meta,
)
from lychgate._delivery_layout import EMPTY, Limits, put
from lychgate._delivery_ledger import Item, Ledger
from lychgate._delivery_ops import (
    CopyItems,
    CreateSegment,
    FsyncQueueDir,
    FsyncSegment,
    UnlinkSegment,
)
from lychgate._op import StepError, with_undo
from lychgate._stats import Stats
from lychgate._steps import append_all, is_missing

Moves = list[tuple[int, Place, int]]
"""Where each item stands in a new generation: its number, its place, the size of its record."""


@dataclass(slots=True)
class Staged:
    """A generation that is being written."""

    generation: int
    segments: list[Segment] = field(default_factory=list)
    moves: Moves = field(default_factory=list)

    async def close(self) -> None:
        while self.segments:
            await close_segment(self.segments.pop().fd)


async def clean(log: Log) -> None:
    """Unlink every segment that the selected generation has not got."""
    while log.inactive:
        generation, number = log.inactive[0]
        try:
            await UnlinkSegment(log.segment_path(number, generation))
        except StepError as error:
            if not is_missing(error):
                raise
        log.inactive.pop(0)


async def retire(log: Log, stats: Stats) -> None:
    """The same where a failure harms nobody: the next publication begins with it (L11)."""
    try:
        await clean(log)
    except StepError:
        stats.count("unlinks_failed")


async def select(log: Log, manifest: Manifest) -> None:
    """Put a manifest in place, durably."""
    await replace_meta(log.path(MANIFEST), encode_manifest(manifest))
    await FsyncQueueDir(log.directory)


async def publish(log: Log, ledger: Ledger, limits: Limits) -> None:
    """Copy every item into a new generation and select it; then the old one is inactive."""
    staged = Staged(log.next_generation)
    await clean(log)
    await FsyncQueueDir(log.directory)
    await with_undo(_stage(log, ledger, limits, staged), staged.close)


async def _stage(log: Log, ledger: Ledger, limits: Limits, staged: Staged) -> None:
    for group in split(limits, list(ledger.items.values())):
        await _copy(log, group, staged)
    if staged.segments:
        await FsyncQueueDir(log.directory)
    last = staged.segments[-1] if staged.segments else None
    boundary = (last.number, last.size) if last else (0, 0)
    await select(log, Manifest(staged.generation, *boundary, ledger.high))
    old, log.segments = log.segments, staged.segments
    log.inactive = [(log.generation, segment.number) for segment in old]
    log.generation, log.boundary = staged.generation, boundary
    ledger.moved(staged.moves)
    for segment in old:
        await close_segment(segment.fd)


def split(limits: Limits, items: list[Item]) -> list[list[Item]]:
    """The items of each segment of a snapshot, next fit."""
    groups: list[list[Item]] = []
    fill = EMPTY
    for item in items:
        fill = put(limits, fill, item.size)
        if fill.segments > len(groups):
            groups.append([])
        groups[-1].append(item)
    return groups


async def _copy(log: Log, items: list[Item], staged: Staged) -> None:
    """One segment of the snapshot, durable but for its name."""
    number = len(staged.segments) + 1
    fd = await CreateSegment(log.segment_path(number, staged.generation))
    segment = Segment(number, fd, 0)
    staged.segments.append(segment)
    batch: list[bytes] = []
    held = 0
    for item in items:
        payload = log.payload(item, await log.record(item))
        place = Place(staged.generation, number, segment.size)
        body = item_body(body_of(item, payload))
        data = encode(Kind.ITEM, item.sequence, len(staged.moves) + 1, body, place)
        assert len(data) == item.size, "a snapshot takes what admission counted"
        staged.moves.append((item.sequence, place, len(data)))
        segment.size += len(data)
        batch.append(data)
        held += len(data)
        if held >= BATCH_BYTES:
            await append_all(CopyItems, fd, b"".join(batch))
            batch, held = [], 0
    if batch:
        await append_all(CopyItems, fd, b"".join(batch))
    await FsyncSegment(fd)


def body_of(item: Item, payload: bytes) -> ItemBody:
    """All that is known of an item, as its record says it."""
    return ItemBody(
        item.state, item.attempts, item.until_ms, item.length_ms, item.reason, payload
    )
