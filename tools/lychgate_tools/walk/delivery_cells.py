"""Cells of the delivery queue: how a file of spec/Delivery.tla stands for bytes.

A record of the model is two cells: header and body are its front, the commit footer is its back.
`i1p` is item 1, pending, as a record of its own; `e1c` is an event, here a claim of item 1; `m102`
is a manifest, `F` the format marker. The bytes are the engine's own, at their place in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lychgate._delivery_codec import (
    FOOTER_MAGIC,
    FORMAT_MARKER,
    ItemBody,
    Kind,
    Manifest,
    Place,
    Record,
    State,
    claim_body,
    decode,
    encode,
    encode_manifest,
    item_body,
    parse_item,
    records,
    retry_body,
)
from lychgate._delivery_files import FORMAT, MANIFEST, STAGED, parse_segment_name, segment_name

FOOTER_BYTES = 8
_CRC = slice(28, 32)

Cells = tuple[str, ...]

_METAS = {
    "manifest": MANIFEST,
    "manifest.tmp": MANIFEST + STAGED,
    "format": FORMAT,
    "format.tmp": FORMAT + STAGED,
}
_METAS_BACK = {name: word for word, name in _METAS.items()}
_STATES = {"p": State.PENDING, "c": State.CLAIMED}
STANDINGS = {State.PENDING: "p", State.CLAIMED: "c", State.QUARANTINED: "q"}
_EVENTS = {"p": Kind.RETRY, "c": Kind.CLAIM, "-": Kind.ACK}
_EVENTS_BACK = {kind: letter for letter, kind in _EVENTS.items()}


def file_name(name: str) -> str:
    """The file of a name of the model."""
    return _METAS.get(name) or segment_name(*place_of(name))


def place_of(name: str) -> tuple[int, int]:
    """Generation and number of a segment's name, g1s2."""
    return int(name[1]), int(name[3])


def model_name(name: str) -> str | None:
    """The model's name of a file, None for what the model has not got."""
    place = parse_segment_name(name)
    return _METAS_BACK.get(name) if place is None else f"g{place[0]}s{place[1]}"


def letter_of(state: State, reason: bytes) -> str:
    """An item's state; one that is quarantined is told by its reason, of one letter."""
    return reason.decode("ascii") if state is State.QUARANTINED else STANDINGS[state]


def whole(names: list[str]) -> Cells:
    """The cells of whole records."""
    return tuple(cell for name in names for cell in (f"{name}<", f"{name}>"))


# --- bytes to cells -----------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def segment_cells(data: bytes, generation: int, number: int) -> Cells:
    """The cells of a segment: its records, and the front of one behind them."""
    found: list[str] = []
    at = 0
    for record in records(data, generation, number):
        if not isinstance(record, Record):
            front = data[at:] + FOOTER_MAGIC + data[at:][_CRC]
            torn = decode(front, 0, Place(generation, number, at))
            found.append(f"{record_name(torn)}<" if isinstance(torn, Record) else "!")
            break
        name = record_name(record)
        found += [f"{name}<", f"{name}>"]
        at += record.size
    return tuple(found)


def record_name(record: Record) -> str:
    """The model's name of a record."""
    if record.kind is Kind.ITEM:
        body = parse_item(record.body)
        return "!" if body is None else f"i{record.sequence}{letter_of(body.state, body.reason)}"
    letter = _EVENTS_BACK.get(record.kind) or record.body.decode("ascii")
    return f"e{record.sequence}{letter}"


def records_before(files: Mapping[str, bytes], boundary: Manifest) -> int:
    """How many records a generation holds up to the end of its snapshot."""
    found = 0
    for number in range(1, boundary.segment + 1):
        data = files.get(segment_name(boundary.generation, number), b"")
        end = boundary.offset if number == boundary.segment else len(data)
        found += len(segment_cells(data[:end], boundary.generation, number)) // 2
    return found


def manifest_name(manifest: Manifest, count: int) -> str:
    return f"m{manifest.generation}{count}{manifest.high}"


# --- cells to bytes -----------------------------------------------------------------------------


class Writer:
    """The bytes of one generation's segments, which are asked for in their order."""

    def __init__(self, generation: int) -> None:
        self._generation = generation
        self._event = 0
        self._attempts: dict[int, int] = {}

    def segment(self, number: int, cells: Cells) -> bytes:
        """A segment with these cells, damaged ones too: "0" is a cell of NULs."""
        data = b""
        for front, back in zip(cells[::2], (*cells[1::2], ""), strict=False):
            name = next((cell[:-1] for cell in (front, back) if cell[-1:] in ("<", ">")), "i1p")
            assert back in ("", "0", f"{name}>"), "one record is never glued to another here"
            place = Place(self._generation, number, len(data))
            record = self.record(name, place, is_good=(front, back) == whole([name]))
            middle = len(record) - FOOTER_BYTES
            data += bytes(middle) if front == "0" else record[:middle]
            if back:
                data += bytes(FOOTER_BYTES) if back == "0" else record[middle:]
        return data

    def record(self, name: str, place: Place, is_good: bool = True) -> bytes:
        sequence, letter = int(name[1]), name[2]
        attempts = self._attempts.get(sequence, 0)
        if name[0] == "i":
            attempts, kind = int(letter != "p"), Kind.ITEM
            state = _STATES.get(letter, State.QUARANTINED)
            reason = b"" if letter in _STATES else letter.encode("ascii")
            body = item_body(ItemBody(state, attempts, 0, 0, reason, payload_of(sequence)))
        else:
            attempts, kind = attempts + (letter == "c"), _EVENTS.get(letter, Kind.QUARANTINE)
            bodies = {"c": claim_body(attempts, 0, 0), "p": retry_body(0, 0), "-": b""}
            body = bodies.get(letter, letter.encode("ascii"))
        data = encode(kind, sequence, self._event + 1, body, place)
        if is_good:
            self._event += 1
            self._attempts[sequence] = attempts
        return data


def segment_bytes(room: int) -> int:
    """A segment that takes so many records of any kind, and never one more: of one item, and for up
    to two records a segment of two items."""
    return 66 * room + 1


def payload_of(sequence: int) -> bytes:
    return b"%d" % sequence


def small_file(cells: Cells, manifest: Manifest | None) -> bytes:
    """A manifest or a marker, damaged ones too."""
    data = FORMAT_MARKER if manifest is None else encode_manifest(manifest)
    middle = len(data) - FOOTER_BYTES
    parts = (data[:middle], data[middle:])
    return b"".join(
        bytes(len(part)) if cell == "0" else part
        for cell, part in zip(cells, parts, strict=False)
    )
