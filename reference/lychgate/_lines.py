"""Lines: the unit of both stores. Pure functions and one bounded-memory scanner.

    crc32 as 8 hex digits ':' body '\\n'

A line is valid when its terminating newline is there and the CRC (zlib's CRC-32 of the body) is
written exactly as `seal` writes it. Everything else is torn (no newline, D16) or bad (D11, D12).
A body never holds a newline; `seal` asserts it.

Memory: a line that cannot be valid (no CRC in front, or longer than LINE_BYTES_MAX) is skipped as
it streams by, so that 200 MB of NULs cost no more than one chunk (D28, F3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

LINE_BYTES_MAX = 128 * 1024 * 1024
"""The longest line, in bytes, that is written or read."""

HEADER_BYTES = 9
"""The CRC and its colon."""

_HEX = frozenset(b"0123456789abcdef")


def seal(body: bytes) -> bytes:
    """The line for a body, newline included."""
    assert b"\n" not in body, "a body is one line"
    line = b"%08x:%b\n" % (crc32(body), body)
    assert is_valid(line[:-1]), "what is written can be read"
    return line


def unseal(text: bytes) -> bytes | None:
    """The body of a line without its newline, None when it does not carry the CRC of that body."""
    body = text[HEADER_BYTES:]
    return body if text[:HEADER_BYTES] == b"%08x:" % crc32(body) else None


def is_valid(text: bytes) -> bool:
    """Whether `text`, a line without its newline, carries the CRC of its body."""
    return unseal(text) is not None


def all_valid(texts: list[bytes]) -> bool:
    """The same of many lines at once, at half the cost a line."""
    crcs = [b"%08x:" % crc32(text[HEADER_BYTES:]) for text in texts]
    return crcs == [text[:HEADER_BYTES] for text in texts]


def windows_backward(size: int, window: int) -> Iterator[tuple[int, int]]:
    """(offset, length) pairs that cover `size` bytes from the end to the front (D11).

    pre: size >= 0 and window > 0
    """
    end = size
    while end > 0:
        start = max(0, end - window)
        yield start, end - start
        end = start


def end_of_last_line(data: bytes) -> int:
    """The naive definition of the tail scan: where the last complete line of `data` ends."""
    return data.rfind(b"\n") + 1


class Line(NamedTuple):
    """A complete line: where it is, newline included, and its body, None for a bad one."""

    offset: int
    length: int
    body: bytes | None


def _may_be_valid(start: bytes) -> bool:
    """Whether a line that begins like this can still turn out valid."""
    return all(byte in _HEX for byte in start[: HEADER_BYTES - 1]) and (
        start[HEADER_BYTES - 1 : HEADER_BYTES] in (b"", b":")
    )


class LineScanner:
    """Splits a stream of chunks into lines, holding at most one line that may be valid."""

    def __init__(self, offset: int = 0) -> None:
        self._start = offset  # where the line in hand begins in the file
        self._length = 0  # its bytes so far
        self._parts: list[bytes] = []  # the same bytes, unless the line cannot be valid
        self._hopeless = False

    @property
    def torn_bytes(self) -> int:
        """Bytes after the last newline so far."""
        return self._length

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that `chunk` completes, in order."""
        first = self._length + chunk.find(b"\n") + 1  # its length, with the bytes in hand
        for text in self.texts(chunk):
            length, first = first or len(text) + 1, 0
            yield Line(self._start, length, unseal(text))
            self._start += length

    def texts(self, chunk: bytes) -> list[bytes]:
        """The same as bare texts without newlines, unchecked; one that was not held is empty."""
        texts = chunk.split(b"\n")
        last = texts.pop()
        if texts and self._length:
            self._hold(texts[0])
            texts[0] = b"".join(self._parts)
            self._parts, self._length, self._hopeless = [], 0, False
        self._hold(last)
        return texts

    def _hold(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._hopeless or not piece:
            return
        self._parts.append(piece)
        if len(self._parts[0]) < HEADER_BYTES:
            self._parts = [b"".join(self._parts)]
        if self._length > LINE_BYTES_MAX or not _may_be_valid(self._parts[0]):
            self._parts, self._hopeless = [], True
