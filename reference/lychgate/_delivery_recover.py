"""Opening a directory, and recovering a poisoned instance: reading, judging, repairing.

    ListQueue, then the format marker, the manifest, and every segment of the selected generation

Rules of this file (L4, L10)
  * No marker and no segment: there is no queue yet, or its making was interrupted. No marker beside
    a segment, a marker without a manifest: corruption, never an empty queue.
  * Only the last record of the last segment, behind the snapshot, may be torn, and only if no valid
    record follows. Anything else that is invalid is corruption, told with file and offset.
  * All of it is read and judged before anything is changed.
  * Under the mark of a clean end a torn record is cut off in place. Otherwise everything is copied
    into new inodes: behind a failed fsync the cache shows what the disk lacks (W9), and behind a
    crash old bytes may lie beyond the end (D29).
"""

from __future__ import annotations

from dataclasses import dataclass

from lychgate._delivery_codec import (
    FORMAT_MARKER,
    MANIFEST_BYTES,
    Bad,
    Manifest,
    later,
    parse_manifest,
    records,
)
from lychgate._delivery_errors import DeliveryCorrupt
from lychgate._delivery_files import (
    FORMAT,
    MANIFEST,
    Log,
    Segment,
    parse_segment_name,
    read_meta,
    read_segment,
    replace_meta,
)
from lychgate._delivery_layout import Limits
from lychgate._delivery_ledger import Ledger
from lychgate._delivery_ops import (
    FsyncQueueDir,
    FsyncSegment,
    ListQueue,
    OpenSegment,
    TruncateSegment,
)
from lychgate._delivery_publish import publish, retire, select
from lychgate._op import StepError, with_undo
from lychgate._stats import Stats
from lychgate._steps import is_missing


@dataclass(frozen=True, slots=True)
class Truncation:
    """A torn last record that a recovery dropped: the file, where it began, its bytes."""

    path: str
    offset: int
    size: int


@dataclass(slots=True)
class Found:
    """What a directory holds. `manifest` is None where there is no queue yet."""

    log: Log
    ledger: Ledger
    manifest: Manifest | None = None
    torn: Truncation | None = None


async def read_queue(directory: str) -> Found:
    """Read and judge everything. Raises DeliveryCorrupt; changes nothing."""
    names = await ListQueue(directory)
    places = sorted(place for name in names if (place := parse_segment_name(name)) is not None)
    log = Log(directory)
    marker = await read_meta(log.path(FORMAT), len(FORMAT_MARKER))
    if marker is None:
        if places:
            raise DeliveryCorrupt(log.path(FORMAT), 0, "it is missing, and there are segments")
        return Found(log, Ledger())
    if marker != FORMAT_MARKER:
        raise DeliveryCorrupt(log.path(FORMAT), 0, "it is not the marker that this engine writes")
    manifest = await _read_manifest(log)
    log.generation = manifest.generation
    log.boundary = (manifest.segment, manifest.offset)
    log.inactive = [place for place in places if place[0] != manifest.generation]
    numbers = [number for generation, number in places if generation == manifest.generation]
    found = Found(log, Ledger(manifest.high), manifest)
    await with_undo(_read_segments(found, numbers), log.close)
    return found


async def _read_manifest(log: Log) -> Manifest:
    path = log.path(MANIFEST)
    data = await read_meta(path, MANIFEST_BYTES)
    if data is None:
        raise DeliveryCorrupt(path, 0, "it is missing, and queue.format says that there was one")
    manifest = parse_manifest(data)
    if isinstance(manifest, str):
        raise DeliveryCorrupt(path, 0, manifest)
    return manifest


async def _read_segments(found: Found, numbers: list[int]) -> None:
    log = found.log
    for number in range(1, max((*numbers, log.boundary[0])) + 1):
        path = log.segment_path(number)
        if number not in numbers:
            raise DeliveryCorrupt(path, 0, "the segment is missing")
        try:
            fd = await OpenSegment(path)
        except StepError as error:
            if is_missing(error):
                raise DeliveryCorrupt(path, 0, "the segment is missing") from error
            raise
        log.segments.append(Segment(number, fd, 0))
        last = number == max(numbers)
        found.torn = replay(found, log.segments[-1], await read_segment(fd), last)


def replay(found: Found, segment: Segment, data: bytes, last: bool) -> Truncation | None:
    """Apply a segment's records; the torn one at its end if there is one.

    Raises DeliveryCorrupt.
    """
    log = found.log
    path = log.segment_path(segment.number)
    for record in records(data, log.generation, segment.number):
        bad = record if isinstance(record, Bad) else found.ledger.apply(record)
        if bad is None:
            assert not isinstance(record, Bad)
            segment.size += record.size
            continue
        if not isinstance(record, Bad):
            raise DeliveryCorrupt(path, bad.offset, bad.what)
        _judge_bad(log, segment, data, bad, last, path)
        return Truncation(path, bad.offset, len(data) - bad.offset)
    if not data and not last:
        raise DeliveryCorrupt(path, 0, "the segment is empty, and it is not the last one")
    if (segment.number, segment.size) < log.boundary and segment.number == log.boundary[0]:
        raise DeliveryCorrupt(path, segment.size, "the selected snapshot goes on beyond this")
    return None


def _judge_bad(
    log: Log, segment: Segment, data: bytes, bad: Bad, last: bool, path: str
) -> None:
    """Raises DeliveryCorrupt unless a crash in the last append explains the bytes."""
    if bad.foreign:
        raise DeliveryCorrupt(path, bad.offset, bad.what)
    if not last:
        raise DeliveryCorrupt(path, bad.offset, f"{bad.what}, and there are later segments")
    if (segment.number, bad.offset) < log.boundary:
        raise DeliveryCorrupt(path, bad.offset, f"{bad.what}, inside the selected snapshot")
    behind = later(data, bad.offset, log.generation, segment.number)
    if behind is not None:
        raise DeliveryCorrupt(path, bad.offset, f"{bad.what}, and a record follows at {behind}")


async def repair(found: Found, limits: Limits, trusted: bool, stats: Stats) -> None:
    """Make what was found the state of the disk, and drop what is torn."""
    log, ledger = found.log, found.ledger
    if found.torn is not None:
        stats.count("records_truncated")
        stats.count("bytes_truncated", found.torn.size)
    if found.manifest is None:
        await select(log, Manifest(0, 0, 0, 0))
    elif trusted and _within(log, limits):
        if found.torn is not None:
            await TruncateSegment(log.segments[-1].fd, log.segments[-1].size)
            await FsyncSegment(log.segments[-1].fd)
        await retire(log, stats)
        return
    else:
        if log.inactive:  # what selects the generation may be in the cache only
            await select(log, found.manifest)
        await publish(log, ledger, limits)
        stats.count("generations_recovered")
    await replace_meta(log.path(FORMAT), FORMAT_MARKER)
    await FsyncQueueDir(log.directory)
    await retire(log, stats)


def _within(log: Log, limits: Limits) -> bool:
    """Whether the generation stays within limits that may be other ones than last time (L12)."""
    sizes = [segment.size for segment in log.segments]
    return len(sizes) <= limits.segments_max and max(sizes, default=0) <= limits.segment_bytes

