"""A shelf on a queue that can only be read by taking: what it holds is kept in memory as well.

Dropping an item turns the queue: those before it are moved to the end, it is taken, and those
behind it follow. A crash within leaves the order turned (so `list_order` is `any`), and one object
at a time may use the queue.
"""

from __future__ import annotations

from typing import Any


IN_MEMORY = {
    case_id: "what the queue holds is kept in memory by the mapping, which a failed call leaves"
    " apart from the store"
    for case_id in (
        *("L4-DEAD-001", "L4-DEAD-003", "L4-FULL-001", "L4-LOCK-001", "L4-MOVE-001"),
        *("L4-OPEN-001", "L4-OPEN-002", "L4-SHORT-001", "L4-SHORT-002", "L4-STAY-001"),
        *("L4-STAY-002", "L4-TASK-001", "L4-TASK-002"),
    )
}


class Turned:
    """What the queue holds, oldest first, and the turning."""

    def __init__(self, held: list[str]) -> None:
        self.held = held

    def append(self, text: str) -> None:
        """To the end of the queue."""
        raise AssertionError("each queue has its own")

    def take(self) -> None:
        """The first one, for good."""
        raise AssertionError("each queue has its own")

    def turn(self) -> None:
        """The first one to the end; a crash within must leave it at least once."""
        raise AssertionError("each queue has its own")

    def put(self, text: str) -> None:
        self.append(text)
        self.held.append(text)

    def items(self) -> list[tuple[Any, str]]:
        return [(text, text) for text in self.held]

    def drop(self, handle: Any) -> None:
        place = self.held.index(handle)
        for _ in range(place):
            self.turn()
        self.take()
        self.held.pop(place)
        for _ in range(len(self.held) - place if place else 0):
            self.turn()
