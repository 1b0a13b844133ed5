"""From a log of block writes and flushes to the images that a crash may have left of it.

    write write flush write write write flush write
    \\___ window ___/   \\_____ window ______/

Rules of this file (it touches no disk)
  * A flush makes every write before it durable. Of the writes since the last flush a crash keeps
    any subset; one that was made later may be there without an earlier one. A device writes blocks
    of 4096 bytes whole; a longer write may be cut between its blocks.
  * A window has `done`: how many steps of the program had returned when each of its writes was
    made. An image that keeps writes up to number n can be the work of a crash at any moment from
    there to the end of the window, so what it shows must be right for all these moments.
  * Where there are more subsets than `Bounds` lets through: all prefixes, everything but one or two
    writes, nothing but one or two, and a seeded sample; then cuts inside long writes. What was left
    out is counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

BLOCK_BYTES = 4096

Blocks = dict[int, bytes]
"""Content by number of block."""


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written to the device."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush that was answered."""


@dataclass(frozen=True, slots=True)
class Mark:
    """So many steps of the program have returned."""

    done: int


Entry = Write | Flush | Mark


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a write that falls into one block."""

    write: int
    """The write's place in its window."""
    block: int
    start: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """The writes between two flushes."""

    durable: int
    """How many writes of the log are before it."""
    writes: tuple[Write, ...]
    done: tuple[int, ...]
    """Steps that had returned: at the window's begin, and after each of its writes."""
    last: int
    """Steps that had returned at the window's end."""

    def moments(self, kept: Sequence[Piece]) -> range:
        """After how many steps a crash can have left an image with these pieces."""
        newest = max((piece.write for piece in kept), default=-1)
        return range(self.done[newest + 1], self.last + 1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where enumeration stops being complete."""

    exhaustive_max: int = 6
    """Up to so many writes every subset is tried."""
    sample: int = 12
    """Seeded subsets of a larger window, and as many cuts inside its writes."""
    seed: int = 1


def pieces(write: Write, place: int = 0) -> Iterator[Piece]:
    """A write, block by block."""
    position = 0
    while position < len(write.data):
        block, start = divmod(write.offset + position, BLOCK_BYTES)
        length = min(BLOCK_BYTES - start, len(write.data) - position)
        yield Piece(place, block, start, write.data[position : position + length])
        position += length


def windows(log: Iterable[Entry]) -> list[Window]:
    """The windows from the first mark on; a window that is open at that moment belongs to them."""
    found: list[Window] = []
    durable, done, marked = 0, 0, False
    writes: list[Write] = []
    moments = [0]
    for entry in [*log, Flush()]:
        if isinstance(entry, Write):
            writes.append(entry)
            moments.append(done)
        elif isinstance(entry, Mark):
            assert entry.done >= done, "steps return in order"
            marked, done = True, entry.done
        else:
            if marked:
                found.append(Window(durable, tuple(writes), tuple(moments), done))
            durable += len(writes)
            writes, moments = [], [done]
    return found


def rounds(window: Window, bounds: Bounds) -> Iterator[list[tuple[Piece, ...]]]:
    """What to keep of a window, the most telling first: five rounds, each a list of choices."""
    count = len(window.writes)
    places = range(count)
    split = [list(pieces(write, place)) for place, write in enumerate(window.writes)]

    def keep(chosen: Iterable[int]) -> tuple[Piece, ...]:
        return tuple(piece for place in sorted(chosen) for piece in split[place])

    everything = set(places)
    yield [keep(places), keep(())]
    yield [keep(range(end)) for end in range(1, count)]
    yield [keep(some) for one in places for some in (everything - {one}, {one})]
    chance = random.Random(f"{bounds.seed} {window.durable} {count}")
    if count <= bounds.exhaustive_max:
        yield [keep(some) for size in range(2, count - 1) for some in combinations(places, size)]
    else:
        pairs = [
            keep(some) for pair in combinations(places, 2) for some in (everything - {*pair}, pair)
        ]
        pairs = chance.sample(pairs, min(len(pairs), bounds.sample))
        yield pairs + [keep(_some(places, chance)) for _ in range(bounds.sample)]
    yield _cuts([piece for parts in split for piece in parts], count, bounds, chance)


def _cuts(
    every: list[Piece], count: int, bounds: Bounds, chance: random.Random
) -> list[tuple[Piece, ...]]:
    """Choices that cut long writes: prefixes and subsets by block."""
    if len(every) == count:
        return []
    ends = range(1, len(every))
    ends_tried = sorted(chance.sample(ends, min(len(ends), bounds.sample)))
    found = [tuple(every[:end]) for end in ends_tried]
    for _ in range(bounds.sample):
        found.append(tuple(every[place] for place in sorted(_some(range(len(every)), chance))))
    return found


def _some(places: Sequence[int], chance: random.Random) -> list[int]:
    bias = chance.random()
    return [place for place in places if chance.random() < bias]


def overlay(
    kept: Iterable[Piece], under: Blocks, beneath: Callable[[int], bytes]
) -> Blocks:
    """`under` with the pieces written over it; `beneath` gives a block that is not in it."""
    found = dict(under)
    put(kept, found, beneath)
    return found


def put(kept: Iterable[Piece], blocks: Blocks, beneath: Callable[[int], bytes]) -> None:
    """Write pieces over blocks, in place."""
    for piece in kept:
        data = piece.data
        if len(data) < BLOCK_BYTES:
            block = blocks.get(piece.block) or beneath(piece.block)
            data = block[: piece.start] + data + block[piece.start + len(data) :]
        blocks[piece.block] = data


def durable_blocks(
    log: Iterable[Entry], beneath: Callable[[int], bytes]
) -> Iterator[tuple[int, Blocks]]:
    """After so many writes of the log: the blocks that they leave; at each flush."""
    found: Blocks = {}
    count = 0
    for entry in log:
        if isinstance(entry, Write):
            found = overlay(pieces(entry), found, beneath)
            count += 1
        elif isinstance(entry, Flush):
            yield count, found
