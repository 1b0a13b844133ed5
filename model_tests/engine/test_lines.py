"""Lines: what is valid, and the scanner against the naive definition (D8, D11, D16, D28, F3)."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate import _lines
from lychgate._lines import (
    Line,
    LineScanner,
    end_of_last_line,
    is_valid,
    seal,
    windows_backward,
)

bodies = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b" "))
pieces = st.one_of(
    st.just(b"\n"),
    bodies.map(seal),
    bodies.map(lambda body: seal(body)[:-1]),
    st.binary(max_size=12),
    st.sampled_from([b"0000", b"00000000:", b"\0" * 20, b"deadbeef:x", b"DEADBEEF:x"]),
)
streams = st.lists(pieces, max_size=12).map(b"".join)


def naive(data: bytes) -> tuple[list[Line], int]:
    """The definition: split at newlines; a line is valid when its CRC is written in front."""
    found: list[Line] = []
    offset = 0
    *lines, torn = data.split(b"\n")
    for text in lines:
        valid = text[:9] == b"%08x:" % crc32(text[9:])
        found.append(Line(offset, len(text) + 1, text[9:] if valid else None))
        offset += len(text) + 1
    return found, len(torn)


def scan(chunks: list[bytes]) -> tuple[list[Line], int]:
    scanner = LineScanner()
    found = [line for chunk in chunks for line in scanner.feed(chunk)]
    return found, scanner.torn_bytes


@given(streams, st.lists(st.integers(0, 200)))
def test_any_chunking_gives_the_lines_of_the_definition(data: bytes, cuts: list[int]) -> None:
    """D8, D16: chunk borders are nobody's business."""
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    assert scan([data[start:end] for start, end in pairwise(edges)]) == naive(data)


@given(bodies)
def test_a_sealed_body_comes_back(body: bytes) -> None:
    """D8: one body, one line, the same bytes."""
    lines, torn = scan([seal(body)])
    assert [line.body for line in lines] == [body] and torn == 0


@pytest.mark.parametrize("body", [b"", b"x", b"add:a:0:null", bytes(range(11, 40))])
def test_any_change_of_one_byte_is_noticed(body: bytes) -> None:
    """D16: every byte of a line, changed to every other value, makes it invalid or another file."""
    line = seal(body)
    for place in range(len(line)):
        for value in range(256):
            changed = line[:place] + bytes([value]) + line[place + 1 :]
            if changed != line:
                lines, _ = scan([changed])
                assert all(found.body != body for found in lines)
                assert all(found.body is None for found in lines)


@pytest.mark.parametrize("body", [b"", b"add:a:0:null"])
def test_any_cut_is_torn(body: bytes) -> None:
    """D16: a last line without its newline is torn, even when its CRC is right."""
    line = seal(body)
    for size in range(len(line)):
        assert scan([line[:size]]) == ([], size)


def test_upper_case_and_short_crcs_are_bad() -> None:
    """D16: a CRC is written in one way only."""
    crc = b"%08x" % crc32(b"body")
    assert is_valid(crc + b":body")
    assert crc.upper() == crc or not is_valid(crc.upper() + b":body")
    assert not is_valid(b" " + crc[1:] + b":body")
    assert not is_valid(b"")


@given(streams, st.integers(1, 50))
def test_reading_windows_backward_finds_the_end_of_the_last_line(data: bytes, window: int) -> None:
    """D11: the tail scan, window by window, is the naive `rfind`."""
    seen: list[tuple[int, int]] = []
    end = 0
    for offset, length in windows_backward(len(data), window):
        seen.append((offset, length))
        found = end_of_last_line(data[offset : offset + length])
        if found:
            end = offset + found
            break
    assert end == end_of_last_line(data)
    assert all(length <= window for _, length in seen)
    assert sum(length for _, length in windows_backward(len(data), window)) == len(data)


def test_200_megabytes_of_nuls_are_one_line_and_one_chunk_of_memory() -> None:
    """D28, F3: a line that cannot be valid is not held."""
    chunk = bytes(1024 * 1024)
    scanner = LineScanner()
    good = seal(b"after")
    tracemalloc.start()
    try:
        for _ in range(200):
            assert not list(scanner.feed(chunk))
        (bad, line) = scanner.feed(b"\n" + good)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bad == Line(0, 200 * 1024 * 1024 + 1, None)
    assert line.body == b"after" and line.offset == bad.length
    assert peak < 3 * len(chunk)


def test_a_line_that_is_too_long_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: memory is bounded also where a huge line begins like a valid one."""
    monkeypatch.setattr(_lines, "LINE_BYTES_MAX", 100_000)
    scanner = LineScanner()
    chunk = b"a" * 4096
    assert not list(scanner.feed(b"00000000:"))
    tracemalloc.start()
    try:
        for _ in range(1000):
            assert not list(scanner.feed(chunk))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000
    (line, good) = scanner.feed(b"\n" + seal(b"next"))
    assert line.body is None and good.body == b"next"
