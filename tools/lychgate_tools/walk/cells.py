"""Cells: how the model's content stands for bytes.

A record of the model is a line of two cells, its front and its back, which carries the newline.
Here a cell is CELL bytes, so that bytes, cells and the units that a disk loses are the same pieces.
"""

from __future__ import annotations

from lychgate._lines import LineScanner, seal
from lychgate._records import record_id

CELL = 64


def line_of(record: str) -> bytes:
    """The two cells of a record."""
    name = record.encode("ascii")
    front, back = b'{"task_id":"%b","pad":"' % name, b'%b"}' % name
    pad = 2 * CELL - len(seal(front + back))
    line = seal(front + b"." * pad + back)
    assert len(line) == 2 * CELL and record_id(line[9:-1]) == name
    return line


class Cells:
    """Cells to bytes and back, for the records of one model."""

    def __init__(self, records: list[str]) -> None:
        self._bytes: dict[str, bytes] = {"0": bytes(CELL)}
        for record in records:
            line = line_of(record)
            self._bytes[f"{record}<"], self._bytes[f"{record}>"] = line[:CELL], line[CELL:]
        self._names = {data: name for name, data in self._bytes.items()}

    def to_bytes(self, cells: tuple[str, ...]) -> bytes:
        return b"".join(self._bytes[cell] for cell in cells)

    def to_cells(self, data: bytes) -> tuple[str, ...]:
        parts = [data[start : start + CELL] for start in range(0, len(data), CELL)]
        return tuple(self._names.get(part, f"?{part[:12]!r}") for part in parts)


def ids_in(data: bytes) -> list[str]:
    """The ids of the valid lines of a file, in order."""
    return [
        (record_id(line.body) or b"").decode("ascii")
        for line in LineScanner().feed(data)
        if line.body is not None
    ]
