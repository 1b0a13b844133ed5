"""From a block log to crash images, without a disk (F1)."""

from __future__ import annotations

from itertools import combinations

from lychgate_tools.litmus.blocklog import (
    BLOCK_BYTES,
    Bounds,
    Entry,
    Flush,
    Mark,
    Window,
    Write,
    durable_blocks,
    overlay,
    pieces,
    rounds,
    windows,
)


def block(number: int, letter: str) -> Write:
    return Write(number * BLOCK_BYTES, letter.encode() * BLOCK_BYTES)


def window(count: int, blocks_each: int = 1) -> Window:
    writes = tuple(
        Write(place * 100 * BLOCK_BYTES, b"b" * BLOCK_BYTES * blocks_each) for place in range(count)
    )
    return Window(0, writes, (0,) * (count + 1), 0)


def zeros(number: int) -> bytes:
    return bytes(BLOCK_BYTES)


LOG: list[Entry] = [
    block(0, "a"), Flush(), block(1, "a"), Mark(0), block(2, "b"), Mark(1), block(3, "c"),
    Flush(), Mark(2), block(4, "d"),
]  # fmt: skip


def test_windows_part_at_flushes_and_begin_at_the_first_mark() -> None:
    """F1: what is older than the last flush before the program is durable; a write that was made
    before the program and not flushed is not."""
    first, second = windows(LOG)
    assert (first.durable, [w.offset // BLOCK_BYTES for w in first.writes]) == (1, [1, 2, 3])
    assert (second.durable, [w.offset // BLOCK_BYTES for w in second.writes]) == (4, [4])
    assert (first.done, first.last) == ((0, 0, 0, 1), 1)
    assert (second.done, second.last) == ((1, 2), 2)


def test_an_image_belongs_to_every_moment_from_its_newest_write_to_the_flush() -> None:
    """F1: a step that returned without a flush promises something about all of these images."""
    first, second = windows(LOG)
    of_first = [list(pieces(write, place)) for place, write in enumerate(first.writes)]
    assert list(first.moments([])) == [0, 1]
    assert list(first.moments(of_first[1])) == [0, 1]
    assert list(first.moments(of_first[2])) == [1]
    assert list(second.moments([])) == [1, 2]
    assert list(second.moments(list(pieces(second.writes[0])))) == [2]


def test_a_small_window_is_tried_completely() -> None:
    """F1: every subset, and none twice among whole writes."""
    for count in range(Bounds().exhaustive_max + 1):
        tried = {kept for of_one in rounds(window(count), Bounds()) for kept in of_one}
        wanted = {
            tuple(piece for place in some for piece in pieces(window(count).writes[place], place))
            for size in range(count + 1)
            for some in combinations(range(count), size)
        }
        assert tried == wanted


def test_a_large_window_is_bounded_and_the_bound_is_seeded() -> None:
    """F1: prefixes, one left out, one alone; the rest by chance that can be repeated."""
    large = window(20)
    tried = [[{p.write for p in kept} for kept in one] for one in rounds(large, Bounds(seed=3))]
    assert tried == [
        [{p.write for p in kept} for kept in one] for one in rounds(large, Bounds(seed=3))
    ]
    flat = [kept for one in tried for kept in one]
    every = set(range(20))
    assert all(set(range(end)) in flat for end in range(21))
    assert all(every - {one} in flat and {one} in flat for one in every)
    assert len(flat) < 150
    other = [[{p.write for p in kept} for kept in one] for one in rounds(large, Bounds(seed=4))]
    assert other[:3] == tried[:3] and other[3] != tried[3]


def test_long_writes_are_cut_between_blocks() -> None:
    """F1: a device writes blocks whole, not requests."""
    *_, cuts = rounds(window(2, blocks_each=3), Bounds())
    assert any({p.write for p in kept} == {0} and len(kept) == 2 for kept in cuts)
    assert all(len(piece.data) == BLOCK_BYTES for kept in cuts for piece in kept)


def test_pieces_and_overlays_keep_what_is_beside_a_short_write() -> None:
    """F1: a write of sectors leaves the rest of its block as it was."""
    write = Write(BLOCK_BYTES - 512, b"x" * 1024)
    parts = list(pieces(write, 5))
    assert [(p.write, p.block, p.start, len(p.data)) for p in parts] == [
        (5, 0, BLOCK_BYTES - 512, 512),
        (5, 1, 0, 512),
    ]
    found = overlay(parts[1:], {1: b"u" * BLOCK_BYTES}, zeros)
    assert found == {1: b"x" * 512 + b"u" * (BLOCK_BYTES - 512)}
    assert overlay(parts[:1], {}, zeros) == {0: bytes(BLOCK_BYTES - 512) + b"x" * 512}


def test_durable_blocks_grow_at_flushes() -> None:
    """F1: the later of two writes to a block stands."""
    log: list[Entry] = [block(0, "a"), Flush(), block(0, "b"), block(1, "c"), Flush()]
    found = dict(durable_blocks(log, zeros))
    assert {count: {n: b[:1] for n, b in blocks.items()} for count, blocks in found.items()} == {
        1: {0: b"a"},
        3: {0: b"b", 1: b"c"},
    }
