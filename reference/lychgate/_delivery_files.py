"""The queue's files: their names, the small ones, and segments as the instance holds them open."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from functools import partial

from lychgate._delivery_codec import Bad, Place, Record, decode, parse_item
from lychgate._delivery_errors import DeliveryCorrupt
from lychgate._delivery_layout import EMPTY, Fill, Limits
from lychgate._delivery_ledger import Item
from lychgate._delivery_ops import (
    CloseMeta,
    CloseSegment,
    CreateMeta,
    FsyncMeta,
    OpenMeta,
    ReadMeta,
    ReadSegment,
    RenameMeta,
    UnlinkMeta,
    WriteMeta,
)
from lychgate._op import StepError, with_release, with_undo
from lychgate._steps import append_all, is_missing, read_all

LOCK = "queue.lock"
FORMAT = "queue.format"
MANIFEST = "queue.manifest"
STAGED = ".tmp"

_SEGMENT = re.compile(r"(?:generation-(\d{20})-)?segment-(\d{20})\.log")
BATCH_BYTES = 1024 * 1024


def segment_name(generation: int, segment: int) -> str:
    """The name of a segment; generation 0 is the one before the first publication of another."""
    name = f"segment-{segment:020d}.log"
    return f"generation-{generation:020d}-{name}" if generation else name


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Generation and number, None for any other name.

    post: __return__ is None or segment_name(*__return__) == name
    """
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    place = int(match[1] or 0), int(match[2])
    return place if segment_name(*place) == name and place[1] else None


@dataclass(slots=True)
class Segment:
    """A segment of the selected generation, held open."""

    number: int
    fd: int
    size: int


@dataclass(slots=True)
class Log:
    """The selected generation, and what else of segments lies in the directory."""

    directory: str
    generation: int = 0
    boundary: tuple[int, int] = (0, 0)
    segments: list[Segment] = field(default_factory=list)
    inactive: list[tuple[int, int]] = field(default_factory=list)

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def segment_path(self, number: int, generation: int | None = None) -> str:
        return self.path(
            segment_name(self.generation if generation is None else generation, number)
        )

    @property
    def fill(self) -> Fill:
        return Fill(len(self.segments), self.segments[-1].size) if self.segments else EMPTY

    def takes(self, size: int, limits: Limits) -> bool:
        """Whether the last segment has room for a record of this size."""
        return bool(self.segments) and self.segments[-1].size + size <= limits.segment_bytes

    @property
    def size(self) -> int:
        """Log bytes of the selected generation."""
        return sum(segment.size for segment in self.segments)

    @property
    def next_generation(self) -> int:
        """Above all that were ever seen here."""
        return 1 + max((self.generation, *(place[0] for place in self.inactive)))

    def end(self) -> Place:
        last = self.segments[-1]
        return Place(self.generation, last.number, last.size)

    async def close(self) -> None:
        """Give all descriptors back."""
        while self.segments:
            await close_segment(self.segments.pop().fd)

    async def record(self, item: Item) -> bytes:
        """The bytes of an item's record."""
        assert item.place.generation == self.generation, "places move with the generation"
        segment = self.segments[item.place.segment - 1]
        return await read_all(ReadSegment, segment.fd, item.place.offset, item.record_bytes)

    def payload(self, item: Item, data: bytes) -> bytes:
        """The payload in an item's record. Raises DeliveryCorrupt if it is another record."""
        found = decode(data, 0, item.place)
        body = parse_item(found.body) if isinstance(found, Record) else None
        if isinstance(found, Bad) or body is None or found.sequence != item.sequence:
            what = found.what if isinstance(found, Bad) else "it is another record"
            raise DeliveryCorrupt(self.segment_path(item.place.segment), item.place.offset, what)
        return body.payload


async def close_segment(fd: int) -> None:
    """A close(2) that fails has closed the descriptor all the same."""
    try:
        await CloseSegment(fd)
    except StepError:
        pass


async def _close_meta(fd: int) -> None:
    try:
        await CloseMeta(fd)
    except StepError:
        pass


async def read_meta(path: str, size_max: int) -> bytes | None:
    """What a small file holds, or None without one; one byte more than `size_max` at most."""
    try:
        fd = await OpenMeta(path)
    except StepError as error:
        if is_missing(error):
            return None
        raise

    async def body() -> bytes:
        data = b""
        while len(data) <= size_max:
            more = await ReadMeta(fd, len(data), size_max + 1 - len(data))
            if not more:
                break
            data += more
        return data

    return await with_release(body(), partial(_close_meta, fd))


async def replace_meta(path: str, data: bytes) -> None:
    """Put a small file in place: a new inode, synced, then renamed. The caller syncs the name."""
    staged = path + STAGED
    try:
        fd = await CreateMeta(staged)
    except StepError as error:
        if error.cause.errno != errno.EEXIST:
            raise
        await UnlinkMeta(staged)
        fd = await CreateMeta(staged)

    async def body() -> None:
        await append_all(WriteMeta, fd, data)
        await FsyncMeta(fd)

    await with_undo(body(), partial(_close_meta, fd))
    await _close_meta(fd)
    await RenameMeta(staged, path)


async def read_segment(fd: int) -> bytes:
    """A whole segment; memory is bounded by its size (L14)."""
    parts: list[bytes] = []
    offset = 0
    while data := await ReadSegment(fd, offset, BATCH_BYTES):
        parts.append(data)
        offset += len(data)
    return b"".join(parts)
