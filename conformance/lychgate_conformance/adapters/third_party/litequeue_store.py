"""litequeue: `LiteQueue`."""

from __future__ import annotations

from typing import Any

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    DURABLE,
    MODE,
    ONE_BY_ONE,
    Peer,
    Shelf,
    Shelved,
    load,
)

_MAPPING = (
    "two queues in two files; `put`, `done`. No method lists what waits, so the mapping reads the"
    " table through the queue's own connection (`conn`)"
)
_LIMITS = (
    "`pop`, which lends a message to a consumer for ever, is not used; several processes and"
    " threads are not documented and not claimed"
)


class LiteShelf:
    """A queue in a database file of its own."""

    def __init__(self, file: str) -> None:
        self.queue = load("litequeue").LiteQueue(file, timeout=30.0)

    def put(self, text: str) -> None:
        self.queue.put(text)

    def items(self) -> list[tuple[Any, str]]:
        status = load("litequeue").MessageStatus
        found = self.queue.conn.execute(
            f"SELECT message_id, data FROM {self.queue.table}"
            " WHERE status IN (?, ?) ORDER BY message_id",
            (status.READY.value, status.LOCKED.value),
        )
        return [(row["message_id"], row["data"]) for row in found]

    def drop(self, handle: Any) -> None:
        self.queue.done(handle)

    def close(self) -> None:
        self.queue.close()


class Default(Shelved):
    """`LiteQueue` as it comes."""

    peer = Peer(
        name="litequeue LiteQueue",
        distribution="litequeue",
        setting="as it comes: WAL journal, `synchronous = NORMAL`",
        promises="persistence",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
        like="Full",
    )
    claims = {**CLAIMS}

    def shelf(self, name: str) -> Shelf:
        return LiteShelf(f"{self.base}{name}.db")


class Full(Default):
    """`LiteQueue` whose connection is set to `synchronous = FULL`."""

    peer = Peer(
        name="litequeue LiteQueue",
        distribution="litequeue",
        setting="`PRAGMA synchronous = FULL` on its connection after opening; no option of its own"
        " sets it",
        promises="persistence. Host crashes are claimed on the word of SQLite, whose FULL means"
        " durable",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
    )
    claims = {**CLAIMS, **DURABLE}

    def shelf(self, name: str) -> Shelf:
        shelf = LiteShelf(f"{self.base}{name}.db")
        shelf.queue.conn.execute("PRAGMA synchronous = FULL")
        return shelf
