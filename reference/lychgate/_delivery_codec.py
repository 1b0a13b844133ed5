"""The bytes of the delivery queue: records, manifest, format marker. Pure functions.

A record, little-endian (docs/formats.md has the same table):

     0  4  "LGDQ"                      16  8  event number: 1, 2, 3, … in its generation
     4  1  version, 1                  24  4  length of the body, n
     5  1  type                        28  4  CRC-32, see below
     6  2  zero                        32  n  body
     8  8  sequence of its item      32+n  4  "LGDC": the commit footer
                                     36+n  4  the same CRC-32

The CRC covers generation, segment number and offset (three 64-bit numbers that are not written),
the first 28 bytes and the body. So a record is valid only where it was written: bytes of another
generation, segment or place never pass, whatever a crash or a payload brings up.

A record is torn, invalid or of an unknown kind; which of these may be cut off is not decided here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

MAGIC = b"LGDQ"
FOOTER_MAGIC = b"LGDC"
VERSION = 1

_HEADER = struct.Struct("<4sBBHQQII")
_FOOTER = struct.Struct("<4sI")
_PLACE = struct.Struct("<QQQ")
_ITEM = struct.Struct("<BBHIQQ")
_CLAIM = struct.Struct("<IQQ")
_RETRY = struct.Struct("<QQ")
_MANIFEST = struct.Struct("<4sB3xQQQQI4s")
_CRC_AT = 28

HEADER_BYTES = _HEADER.size
OVERHEAD_BYTES = _HEADER.size + _FOOTER.size
ITEM_BYTES = OVERHEAD_BYTES + _ITEM.size
"""An item's record beside reason and payload."""
CLAIM_BYTES = OVERHEAD_BYTES + _CLAIM.size
"""The longest control record beside a quarantine's reason."""
MANIFEST_BYTES = _MANIFEST.size
MANIFEST_MAGIC = b"LGDM"
_MANIFEST_END = b"MDGL"
FORMAT_MARKER = b"lychgate-queue 1"

U64_MAX = 2**64 - 1
U32_MAX = 2**32 - 1
REASON_BYTES_MAX = 4096

assert (HEADER_BYTES, OVERHEAD_BYTES, MANIFEST_BYTES, len(FORMAT_MARKER)) == (32, 40, 48, 16)


class Kind(IntEnum):
    """Record types."""

    ITEM = 1
    CLAIM = 2
    RETRY = 3
    ACK = 4
    QUARANTINE = 5


class State(IntEnum):
    """Where an item stands. An acked item is no longer there."""

    PENDING = 1
    CLAIMED = 2
    QUARANTINED = 3


class Place(NamedTuple):
    """Where a record begins; the offset is bytes in its segment."""

    generation: int
    segment: int
    offset: int


class Record(NamedTuple):
    """A valid record. `size` is bytes, header and footer counted."""

    kind: Kind
    sequence: int
    event: int
    body: bytes
    place: Place
    size: int


class Bad(NamedTuple):
    """What stands at `offset` is no record. `foreign`: it is one of a version or type that this
    engine does not know, so it must not be taken for a torn one. `sealed`: its checksum fits.
    """

    offset: int
    what: str
    foreign: bool = False
    sealed: bool = False


class ItemBody(NamedTuple):
    state: State
    attempts: int
    until_ms: int
    length_ms: int
    reason: bytes
    payload: bytes


def _crc(place: Place, header: bytes, body: bytes) -> int:
    return crc32(body, crc32(header, crc32(_PLACE.pack(*place))))


def encode(kind: Kind, sequence: int, event: int, body: bytes, place: Place) -> bytes:
    """The record's bytes at a place."""
    header = _HEADER.pack(MAGIC, VERSION, kind, 0, sequence, event, len(body), 0)[:_CRC_AT]
    crc = _crc(place, header, body)
    data = b"".join((header, crc.to_bytes(4, "little"), body, _FOOTER.pack(FOOTER_MAGIC, crc)))
    assert len(data) == OVERHEAD_BYTES + len(body), "sizes are what admission counted"
    return data


def decode(data: bytes, at: int, place: Place) -> Record | Bad:
    """The record that begins at index `at` of `data`, whose place on disk is `place`."""
    offset, end = place.offset, at + HEADER_BYTES
    if len(data) < end:
        return Bad(offset, f"{len(data) - at} bytes where a header has {HEADER_BYTES}")
    magic, version, kind, zero, sequence, event, length, crc = _HEADER.unpack_from(data, at)
    if magic != MAGIC:
        return Bad(offset, "zeros" if not any(data[at:end]) else "no record begins here")
    if version not in (0, VERSION):
        return Bad(offset, f"a record of version {version}; this engine knows {VERSION}", True)
    end += length
    if len(data) < end + _FOOTER.size:
        return Bad(offset, "the record goes on beyond the end of the file")
    if _FOOTER.unpack_from(data, end) != (FOOTER_MAGIC, crc):
        return Bad(offset, "the commit footer is not there")
    body = data[at + HEADER_BYTES : end]
    if zero or version != VERSION or crc != _crc(place, data[at : at + _CRC_AT], body):
        return Bad(offset, "the checksum is wrong for these bytes at this place")
    if kind not in _KINDS:
        return Bad(offset, f"a record of type {kind}, which this engine does not know", True, True)
    return Record(_KINDS[kind], sequence, event, body, place, OVERHEAD_BYTES + length)


_KINDS = {int(kind): kind for kind in Kind}


def records(data: bytes, generation: int, segment: int) -> Iterator[Record | Bad]:
    """The records of a whole segment in order; after a bad one nothing more."""
    at = 0
    while at < len(data):
        found = decode(data, at, Place(generation, segment, at))
        yield found
        if isinstance(found, Bad):
            return
        at += found.size


def later(data: bytes, after: int, generation: int, segment: int) -> int | None:
    """Where a valid record stands behind the invalid bytes at `after`: no crash leaves one (L4)."""
    at = data.find(MAGIC, after + 1)
    while at >= 0:
        found = decode(data, at, Place(generation, segment, at))
        if isinstance(found, Record) or found.sealed:
            return at
        at = data.find(MAGIC, at + 1)
    return None


# --- bodies -----------------------------------------------------------------------------------


def item_body(item: ItemBody) -> bytes:
    """An item with all that is known of it: enqueued, or copied into a snapshot."""
    head = _ITEM.pack(
        item.state, 0, len(item.reason), item.attempts, item.until_ms, item.length_ms
    )
    return head + item.reason + item.payload


def parse_item(body: bytes) -> ItemBody | None:
    """The item, None when the body is not one."""
    if len(body) < _ITEM.size:
        return None
    state, zero, length, attempts, until, span = _ITEM.unpack_from(body)
    if state not in _STATES or zero or _ITEM.size + length > len(body):
        return None
    at = _ITEM.size + length
    return ItemBody(_STATES[state], attempts, until, span, body[_ITEM.size : at], body[at:])


_STATES = {int(state): state for state in State}


def claim_body(attempt: int, until_ms: int, length_ms: int) -> bytes:
    return _CLAIM.pack(attempt, until_ms, length_ms)


def parse_claim(body: bytes) -> tuple[int, int, int] | None:
    """Attempt, end and length of a claim."""
    if len(body) != _CLAIM.size:
        return None
    attempt, until, length = _CLAIM.unpack(body)
    return attempt, until, length


def retry_body(until_ms: int, length_ms: int) -> bytes:
    return _RETRY.pack(until_ms, length_ms)


def parse_retry(body: bytes) -> tuple[int, int] | None:
    """End and length of a delay."""
    if len(body) != _RETRY.size:
        return None
    until, length = _RETRY.unpack(body)
    return until, length


# --- manifest ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Manifest:
    """Selects a generation. The snapshot ends at `offset` of `segment` (0, 0: it is empty), and
    `high` is the highest sequence that was given when it was made."""

    generation: int
    segment: int
    offset: int
    high: int


def encode_manifest(manifest: Manifest) -> bytes:
    data = _MANIFEST.pack(
        MANIFEST_MAGIC,
        VERSION,
        manifest.generation,
        manifest.segment,
        manifest.offset,
        manifest.high,
        0,
        _MANIFEST_END,
    )
    return data[:40] + crc32(data[:40]).to_bytes(4, "little") + data[44:]


def parse_manifest(data: bytes) -> Manifest | str:
    """The manifest, or what is wrong with it."""
    if len(data) != MANIFEST_BYTES:
        return f"{len(data)} bytes where a manifest has {MANIFEST_BYTES}"
    magic, version, generation, segment, offset, high, crc, end = _MANIFEST.unpack(data)
    if magic != MANIFEST_MAGIC or end != _MANIFEST_END:
        return "no manifest begins and ends here"
    if version != VERSION:
        return f"a manifest of version {version}; this engine knows {VERSION}"
    if crc != crc32(data[:40]) or any(data[5:8]):
        return "the checksum is wrong"
    if (segment == 0) != (offset == 0):
        return "a snapshot boundary that cannot be"
    return Manifest(generation, segment, offset, high)
