"""Cells of the WAL: how a file of the model stands for bytes.

A record of module Wal, `+a` or `-a`, is a line of two cells, its front and its back, which carries
the newline. Here the line is the engine's own, cut in its middle.
"""

from __future__ import annotations

from lychgate._records import JSON, wal_add_line, wal_remove_line

NUL = bytes(16)

TORN = bytes(5) + b"0123"
"""A tail that a crash has torn: no cell, and no line."""


def line_of(record: str) -> bytes:
    """The line that the engine writes for a record of the model."""
    task = record[1:]
    return wal_add_line(JSON, task, task, None) if record[0] == "+" else wal_remove_line(task)


class WalCells:
    """Cells to bytes and back, for the tasks of one model."""

    def __init__(self, tasks: list[str]) -> None:
        self._bytes: dict[str, bytes] = {"0": NUL}
        for record in [sign + task for task in tasks for sign in "+-"]:
            line = line_of(record)
            middle = len(line) // 2
            self._bytes[f"{record}<"], self._bytes[f"{record}>"] = line[:middle], line[middle:]

    def to_bytes(self, cells: tuple[str, ...]) -> bytes:
        return b"".join(self._bytes[cell] for cell in cells)

    def to_cells(self, data: bytes) -> tuple[str, ...]:
        """The cells of a content; what is none of them stands in the last place as it is."""
        found: list[str] = []
        while data:
            for name, cell in self._bytes.items():
                if data.startswith(cell):
                    found.append(name)
                    data = data[len(cell) :]
                    break
            else:
                return (*found, f"?{data!r}")
        return tuple(found)

    def without_last(self, data: bytes) -> bytes:
        """What a write that stops inside its last line leaves: all but one cell."""
        last = self.to_cells(data)[-1]
        return data[: -len(self._bytes[last])]
