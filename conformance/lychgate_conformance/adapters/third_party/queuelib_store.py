"""queuelib: `FifoDiskQueue` and `FifoSQLiteQueue`."""

from __future__ import annotations

import atexit
import secrets
from typing import Any

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    MODE,
    ONE_BY_ONE,
    Peer,
    Shelf,
    Shelved,
    load,
)
from lychgate_conformance.adapters.third_party._turned import IN_MEMORY, Turned

_LIMITS = (
    "it can be read only by taking: the mapping keeps what the queue holds in memory and moves"
    " items to the end to reach one in the middle. So one process and one thread, and no order"
)


class DiskShelf(Turned):
    """A `FifoDiskQueue`. Only `close` writes down what was taken, so it is read by taking
    everything, without closing it, and opening it anew."""

    def __init__(self, directory: str) -> None:
        reader = load("queuelib").FifoDiskQueue(directory)
        super().__init__([reader.pop().decode("ascii") for _ in range(len(reader))])
        reader.headf.close()
        reader.tailf.close()
        self.queue = load("queuelib").FifoDiskQueue(directory)
        atexit.register(self.close)  # its documentation: closing is mandatory

    def append(self, text: str) -> None:
        self.queue.push(text.encode("ascii"))

    def take(self) -> None:
        self.queue.pop()

    def turn(self) -> None:
        self.queue.push(self.queue.pop())

    def close(self) -> None:
        atexit.unregister(self.close)
        self.queue.close()


class Disk(Shelved):
    """`FifoDiskQueue`."""

    peer = Peer(
        name="queuelib FifoDiskQueue",
        distribution="queuelib",
        setting="as it comes; it never calls fsync",
        promises="a later process finds what was there when the queue was closed; its documentation"
        " calls `close` mandatory, and rules out several objects at a time and threads",
        mapping="two queues in two directories; `push`, `pop`; closed when the process ends",
        limits=f"{_LIMITS}. More than 100,000 items are not tried",
        leaves_out=MODE,
    )
    claims = {**CLAIMS, "survives_process_kill": False, "list_order": "any"}

    def shelf(self, name: str) -> Shelf:
        return DiskShelf(f"{self.base}{name}")


class SqliteShelf(Turned):
    """A `FifoSQLiteQueue`, read by turning it once. A turn that a crash has cut leaves an item
    twice; so each has a mark, and the second one with a mark is taken away."""

    def __init__(self, file: str) -> None:
        self.queue = load("queuelib.queue").FifoSQLiteQueue(file)
        held: list[str] = []
        for _ in range(len(self.queue)):
            text = self.queue.peek().decode("ascii")
            if text in held:
                self.take()
            else:
                held.append(text)
                self.turn()
        super().__init__(held)

    def items(self) -> list[tuple[Any, str]]:
        return [(text, text.partition(" ")[2]) for text in self.held]

    def put(self, text: str) -> None:
        super().put(f"{secrets.token_hex(12)} {text}")

    def append(self, text: str) -> None:
        self.queue.push(text.encode("ascii"))

    def take(self) -> None:
        self.queue.pop()

    def turn(self) -> None:
        self.queue.push(self.queue.peek())
        self.queue.pop()

    def close(self) -> None:
        self.queue.close()


class Sqlite(Shelved):
    """`FifoSQLiteQueue`."""

    peer = Peer(
        name="queuelib FifoSQLiteQueue",
        distribution="queuelib",
        setting="as it comes: SQLite's own rollback journal and `synchronous`",
        promises="persistence; threads and several objects at a time are ruled out",
        mapping="two queues in two files; `push`, `peek`, `pop`",
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE, **IN_MEMORY},
    )
    claims = {**CLAIMS, "list_order": "any"}

    def shelf(self, name: str) -> Shelf:
        return SqliteShelf(f"{self.base}{name}.db")
